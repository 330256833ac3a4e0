#pragma once
// A sum over the ranks whose bits are those of one binary tree.

#include <cstddef>

#include "tutti/comm/communicator.hpp"
#include "tutti/device/buffer.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// In place, on every rank the sum over all R of them, a power of two (else std::logic_error), of a buffer of
/// f32, f64 or i64 in host memory. Ranks r and r + R/2 add first, then those sums at distance R/4, and so on
/// down to 1 (recursive doubling; R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
/// Communication Operations in MPICH", 2005, section 4). As x + y = y + x in floating point, every rank gets
/// the bits of that one tree; where each rank brings the sum of its subtree of a larger tree, those of the
/// larger one. Collective; blocks. Sends log2(R) times the buffer.
void butterfly_sum(Communicator& communicator, const TensorView& buffer);

/// What a call needs beside the buffer.
constexpr std::size_t butterfly_bytes = std::size_t{1} << 20;

/// The same for memory of a device, which `communicator` moves: `add` (y += x, of the buffer's type) adds
/// there. The sum is there for what is issued on the device afterwards. received: the device's, for what the
/// peers send, any size from two elements on, the same on all ranks; half of it is a piece. It must live as
/// long as the communicator where the call throws.
void butterfly_sum(Communicator& communicator, const TensorView& buffer, const Buffer& received, Ops& add);

/// What such a call takes for a buffer of so many bytes: pieces of which a network sees no more than a few.
constexpr std::size_t device_butterfly_bytes(std::size_t buffer) {
    constexpr std::size_t most = std::size_t{64} << 20;
    return buffer < most / 2 ? 2 * buffer : most;
}

}  // namespace tutti
