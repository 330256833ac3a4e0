#pragma once
// Which memory is free again: offsets for buffers with known life times.

#include <cstddef>
#include <span>
#include <vector>

namespace tutti {

/// A buffer that is written at time `first` and read last at time `last` (inclusive).
struct Lifetime {
    std::size_t bytes = 0;
    std::size_t first = 0, last = 0;
};

struct MemoryPlan {
    std::vector<std::size_t> offsets;  ///< one per buffer
    std::size_t bytes = 0;             ///< of the arena
};

/// Greedy by size: buffers from the largest to the smallest, each at the lowest offset where it overlaps no
/// placed buffer alive at the same time (Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural
/// Net Inference", 2020, section 4.2). Offsets are multiples of `alignment`. Pure.
MemoryPlan plan_memory(std::span<const Lifetime> buffers, std::size_t alignment);

}  // namespace tutti
