#pragma once
// Products of many rows with the weights of a linear layer in bf16, by our own instructions: inputs are
// rounded some rows at a time on their way into the cache, where oneDNN takes passes of their own.

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether these are the faster way: whole vectors of inputs and outputs, so few of them that a slab of the
/// weights stays in a core's cache, enough rows to pack the weights for, and a processor with the
/// instructions.
bool takes_bf16_linear(const LinearShape& shape, std::int64_t rows);

/// y[N, out] = x[N, in]·weight[out, in]ᵀ + bias[out] (null: none), fp32, of which x and weight are rounded to
/// bf16; sums are fp32. The bits depend neither on the number of threads nor on the other rows.
void bf16_linear_forward(const LinearShape& shape, std::int64_t rows, const float* x, const float* weight,
                         const float* bias, float* y, Workspace& workspace);

/// dx[N, in] = dy[N, out]·weight[out, in]. dy: in bf16 already.
void bf16_linear_backward_data(const LinearShape& shape, std::int64_t rows, const std::uint16_t* dy,
                               const float* weight, float* dx, Workspace& workspace);

}  // namespace tutti
