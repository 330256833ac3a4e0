#pragma once
// Samples copied straight from the page cache, without a call of the system for each.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// A read-only mapping of the part of a file that holds the samples. Its pages are the page cache's, shared
/// by all processes of a host.
class MappedSamples {
  public:
    /// The file is brought in piece by piece, each by one call of the system.
    static constexpr std::uint64_t piece_bytes = std::uint64_t{16} << 20;

    /// Of `bytes` bytes from byte `offset` of the open file on, in samples of `sample_bytes`. The file must
    /// stay open as long as the mapping. Null where the samples are none, where the system does not map the
    /// file, or where it is not on a file system of this host: over a network each page that is missing costs
    /// a round trip, and what other hosts do to the file is seen late.
    static std::unique_ptr<MappedSamples> map(int file, std::uint64_t offset, std::uint64_t bytes,
                                              std::size_t sample_bytes);
    ~MappedSamples();
    MappedSamples(const MappedSamples&) = delete;
    MappedSamples& operator=(const MappedSamples&) = delete;

    /// The samples `indices`, one after the other. False, with nothing certain in `out`, when pread is to do
    /// it: the file has become too short or a page cannot be read, and pread tells which sample, and why. Any
    /// thread.
    bool copy(std::span<const std::int64_t> indices, std::byte* out) const;
    /// As that of Dataset, by pieces of piece_bytes.
    void bring_in(BringInPatience& patience) const;

    std::uint64_t bytes() const { return bytes_; }

  private:
    MappedSamples(int file, std::uint64_t offset, std::uint64_t bytes, std::size_t sample_bytes);
    bool whole() const;
    void bring_piece(std::uint64_t begin) const;
    void ask_for(std::uint64_t begin, std::uint64_t size) const;

    int file_;
    std::uint64_t offset_, bytes_;
    std::size_t sample_bytes_;
    void* mapped_;
    void* last_page_;  ///< the page with the samples' last byte, once more
    std::size_t mapped_bytes_;
    const std::byte* samples_ = nullptr;
    std::int64_t first_in_last_page_ = 0;  ///< the first sample that reaches into it
    mutable std::mutex bringing_in_;
    mutable std::condition_variable piece_is_in_;
    mutable std::uint64_t claimed_ = 0;  ///< bytes in pieces that a thread has taken on
    mutable std::size_t under_way_ = 0;  ///< pieces of them that are not in yet
    mutable std::atomic<bool> all_in_ = false;
};

}  // namespace tutti
