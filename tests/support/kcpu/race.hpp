#pragma once
// Between the scheduler and the race detector. Two libraries implement the functions: race_detector.cpp for
// kernels compiled with -fsanitize=thread, no_race_detector.cpp for all others.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fiber.hpp"

namespace tutti::kcpu {

/// Which CUDA thread runs, and how many barriers it has behind it: two accesses of one block are ordered when
/// a barrier lies between them.
struct Now {
    bool in_kernel = false;
    std::uint64_t block = 0;  ///< linear
    int thread = 0;           ///< linear, in the block
    std::uint32_t block_epoch = 0;
    std::vector<std::uint32_t> warp_epoch;  ///< one per warp
    const Fiber* fiber = nullptr;
};
extern Now now;

void races_begin();
/// What was found since races_begin(), one line each; empty when nothing was.
std::string races_end();
void races_new_block();
/// `name` must live as long as the launch.
void races_shared_memory(const void* data, std::size_t bytes, const char* name);

/// While it lives, the accesses of this thread are one atomic access to `bytes` at `data`.
class AtomicAccess {
  public:
    AtomicAccess(const void* data, std::size_t bytes);
    ~AtomicAccess();
    AtomicAccess(const AtomicAccess&) = delete;
    AtomicAccess& operator=(const AtomicAccess&) = delete;
};

}  // namespace tutti::kcpu
