#pragma once
// Operators that take and give fp32 alone, for values that lie in memory in bf16: these are widened before,
// and results rounded after.

#include <memory>

#include "tutti/device/ops.hpp"

namespace tutti {

/// x, y, dx and dy may be of either type; those in fp32 stay where they are.
std::unique_ptr<Conv2dOp> in_fp32(std::unique_ptr<Conv2dOp> op);
/// The same for an operator that takes either type, but in one call all of one: x and dx with dy, or y.
std::unique_ptr<Conv2dOp> in_fp32_where_types_differ(std::unique_ptr<Conv2dOp> op);
/// x and dx may be.
std::unique_ptr<LinearOp> in_fp32(std::unique_ptr<LinearOp> op);

}  // namespace tutti
