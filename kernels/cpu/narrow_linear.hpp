#pragma once
// Linear layers of few outputs in fp32, such as the last of a classifier.

#include <cstdint>

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether a layer goes this way: all outputs fit into one vector, where a library's products, which are made
/// for wider results, spend much of their time on bringing operands into their order; inputs fill vectors.
/// Neither the number of rows nor that of threads has a say: rows get the same bits in calls of more and of
/// fewer.
bool takes_narrow_linear(const LinearShape& shape);

/// As LinearOp::forward and backward. Threads take runs of inputs: so each reads of x, and writes of dx,
/// those features that it has computed, or will use, in a layer before that is dealt by output features, and
/// owns its part of the weights. y is summed from the threads' parts in their order.
/// Many rows are taken some at a time: the scratch does not grow with them, and progress is offered.
void narrow_linear_forward(const LinearShape& shape, std::int64_t batch, const float* x, const float* weight,
                           const float* bias, float* y, Workspace& workspace);
/// `dx`, `dbias` and `parameters_final` may be null: not wanted.
void narrow_linear_backward(const LinearShape& shape, std::int64_t batch, const float* x, const float* weight,
                            const float* dy, float* dx, float* dweight, float* dbias,
                            const ParametersFinal* parameters_final);

}  // namespace tutti
