#pragma once
// Dropout, as Ops::dropout_*, and stochastic depth: the masks have the bits of the CPU's. Numbers are
// addressed by (seed, epoch, position, place), and what changes from step to step lies in device memory, so
// that a captured step draws anew: epoch i64[1], positions i64[N]. x, y: f32 or bf16; arithmetic in fp32.
//
// Moves: dropout N·(2·s + 1) bytes for N elements, forward and backward, s = 4 or 2; stochastic depth
// 2·N·s. Floor at 4.3 TB/s: 64·197·768 elements in bf16: 11 µs; 9 µs.
// Dropout's forward draws 10 rounds of Philox for four elements, which may take longer than that.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// DropoutAddress of the ops' contract, in device memory.
struct DropoutPlace {
    std::int64_t seed = 0;
    std::uint64_t layer = 0;  ///< below 2¹⁶
    TensorView epoch, positions;
};

/// x: [N, …, C]; keep (u8, x's shape). y may be x.
void dropout_forward(const DropoutPlace& place, double probability, const TensorView& x, const TensorView& y,
                     const TensorView& keep, Stream stream);
/// dx may be dy.
void dropout_backward(double probability, const TensorView& dy, const TensorView& keep, const TensorView& dx,
                      Stream stream);

/// y[n] = 0 where RandomStream(seed, RandomPlace::drop_path, epoch, positions[n]).uniform(layer) is below
/// probability (which is below 1), else x[n] / (1 − probability). Its own backward. y may be x.
void drop_path(const DropoutPlace& place, double probability, const TensorView& x, const TensorView& y,
               Stream stream);

}  // namespace tutti::cuda
