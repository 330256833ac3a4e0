#pragma once
// Products of rows with the weights of a linear layer in bf16, by our own instructions: inputs are rounded
// some rows at a time on their way into the cache, where oneDNN takes passes of their own.

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether these are the faster way forward: whole vectors of inputs and outputs, so few of them that a slab
/// of the weights stays in a core's cache (any number with a matrix unit, where more rows come at a time),
/// and a processor with the instructions. The number of rows has no say: the same rows come in calls of more
/// or fewer where activations are computed again, and must get the same bits.
bool takes_bf16_linear(const LinearShape& shape);
/// And whether for the inputs' gradients of so many rows, all of a batch: enough to pack the weights for.
bool takes_bf16_linear_backward(const LinearShape& shape, std::int64_t rows);

/// y[N, out] = x[N, in]·weight[out, in]ᵀ + bias[out] (null: none), fp32, of which x and weight are rounded to
/// bf16; sums are fp32. The bits of a row depend neither on the number of threads nor on the other rows.
void bf16_linear_forward(const LinearShape& shape, std::int64_t rows, const float* x, const float* weight,
                         const float* bias, float* y, Workspace& workspace);

/// dx[N, in] = dy[N, out]·weight[out, in]. dy: in bf16 already.
void bf16_linear_backward_data(const LinearShape& shape, std::int64_t rows, const std::uint16_t* dy,
                               const float* weight, float* dx, Workspace& workspace);

}  // namespace tutti
