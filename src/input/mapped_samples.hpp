#pragma once
// Samples copied straight from the page cache, without a call of the system for each.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "brought_in_range.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// A read-only mapping of the part of a file that holds the samples. Its pages are the page cache's, shared
/// by all processes of a host.
class MappedSamples {
  public:
    /// Of `bytes` bytes from byte `offset` of the open file on, in samples of `sample_bytes`. The file must
    /// stay open as long as the mapping. Null where the samples are none, where the system does not map the
    /// file, or where it is not on a file system of this host: over a network each page that is missing costs
    /// a round trip, and what other hosts do to the file is seen late. `available`: as of BroughtInRange.
    static std::unique_ptr<MappedSamples> map(int file, std::uint64_t offset, std::uint64_t bytes,
                                              std::size_t sample_bytes,
                                              std::function<std::optional<std::int64_t>()> available = {});
    ~MappedSamples();
    MappedSamples(const MappedSamples&) = delete;
    MappedSamples& operator=(const MappedSamples&) = delete;

    /// The samples `indices`, one after the other. False, with nothing certain in `out`, when pread is to do
    /// it: the file has become too short or a page cannot be read, and pread tells which sample, and why; or
    /// memory has become short, where a page that was taken back would come again with 2 MiB around it. Any
    /// thread.
    bool copy(std::span<const std::int64_t> indices, std::byte* out) const;
    /// As that of Dataset.
    void bring_in(BringInPatience& patience) const { range_->bring_in(patience); }

    std::uint64_t bytes() const { return bytes_; }

  private:
    MappedSamples(int file, std::uint64_t offset, std::uint64_t bytes, std::size_t sample_bytes,
                  std::function<std::optional<std::int64_t>()> available);
    bool whole() const;

    int file_;
    std::uint64_t offset_, bytes_;
    std::size_t sample_bytes_;
    void* mapped_;
    void* last_page_;  ///< the page with the samples' last byte, once more
    std::size_t mapped_bytes_;
    const std::byte* samples_ = nullptr;
    std::int64_t first_in_last_page_ = 0;  ///< the first sample that reaches into it
    std::optional<BroughtInRange> range_;  ///< what is mapped
};

}  // namespace tutti
