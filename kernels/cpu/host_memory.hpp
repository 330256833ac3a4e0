#pragma once
// Host memory for arenas and scratch.

#include <cstddef>
#include <string>

#include "tutti/device/buffer.hpp"

namespace tutti {

/// Zeroed pages, aligned to 4096 bytes, each touched first by the thread that will work on that part of an
/// array (parallel.hpp cuts arrays the same way), so that it lies in that thread's memory. Large buffers ask
/// for huge pages. Throws RunError that says how much was asked for, and for what.
Buffer allocate_host(std::size_t bytes, const std::string& purpose);

/// Scratch memory that the operators of one Ops share: they run one after another, so the largest need serves
/// all.
class Workspace {
  public:
    /// At least `bytes`, aligned to 4096, contents arbitrary. Ends the life of earlier reservations.
    std::byte* reserve(std::size_t bytes);
    bool holds(std::size_t bytes) const { return memory_.data() != nullptr && bytes <= memory_.size(); }

    template <class T>
    T* reserve_elements(std::size_t count) {
        return reinterpret_cast<T*>(reserve(count * sizeof(T)));
    }

  private:
    Buffer memory_;
};

}  // namespace tutti
