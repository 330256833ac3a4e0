#pragma once
// A file that is read in any order is brought into memory in its own: as quick as a sequential read.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "first_touch.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// Whether the open file is on a file system of this host. Over a network what a host reads others wait for.
bool is_on_this_host(int file);

/// A part of a file that threads bring into the page cache together, piece by piece in its order.
class BroughtInRange {
  public:
    /// One call of the system each.
    static constexpr std::uint64_t piece_bytes = bring_in_piece_bytes;

    /// `bytes` bytes of the open file from byte `begin` on, where a page begins. `mapping`: where they are
    /// mapped; for nullptr pieces are mapped only while they are brought in, and the resident set stays
    /// small. File and mapping must outlive this. `available`: bytes that can still be had, the page cache
    /// among them; by default available_bytes().
    BroughtInRange(int file, std::uint64_t begin, std::uint64_t bytes, void* mapping,
                   std::function<std::optional<std::int64_t>()> available = {});

    /// As that of Dataset. A file that was cut, or cannot be read, is left for read() to find.
    void bring_in(BringInPatience& patience) const;

    /// Whether memory still holds the files, as far as is known: asked again after each GiB of the range that
    /// was taken from it, of which these are the next `bytes`. Any thread.
    bool holds(std::uint64_t bytes) const;

  private:
    bool has_room(std::uint64_t files) const;
    void bring_piece(std::uint64_t at) const;
    void note_all_is_in() const;
    void ask_for(std::uint64_t at, std::uint64_t size) const;

    int file_;
    std::uint64_t begin_, bytes_;
    std::byte* mapping_;
    std::function<std::optional<std::int64_t>()> available_;
    mutable std::mutex bringing_in_;
    mutable std::condition_variable piece_is_in_;
    mutable std::uint64_t claimed_ =
        0;  ///< bytes in pieces that a thread has taken on, or that were given up
    mutable std::size_t under_way_ = 0;                 ///< pieces of them that are not in yet
    mutable std::atomic<bool> done_ = false;            ///< all is in, or the rest given up
    mutable std::atomic<std::uint64_t> asked_for_ = 0;  ///< of the last patience: with the files before it
    mutable std::atomic<std::uint64_t> taken_ = 0;
    mutable FirstTouch first_touch_;           ///< of what is mapped
    mutable std::atomic<bool> short_ = false;  ///< memory held less than the files when it was last asked
};

}  // namespace tutti
