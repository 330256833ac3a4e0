#pragma once
// A plain read of files from begin to end: the speed that a loader is measured against.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

class SequentialRead {
  public:
    /// Blocks of `block` bytes, always into the same memory, which begins at a page: to other places some
    /// processors copy slower.
    SequentialRead(std::vector<std::string> paths, std::size_t block);

    SequentialRead(const SequentialRead&) = delete;
    SequentialRead& operator=(const SequentialRead&) = delete;

    /// Of all files, as they are now; one that is not there has none.
    std::uint64_t all_bytes() const;

    /// Reads `bytes` with read(2), from `skip` bytes on; after the last file comes the first again. Throws
    /// DataError: a file that cannot be read, or all of them empty.
    void read(std::uint64_t bytes, std::uint64_t skip = 0);

  private:
    std::uint64_t read_file(const std::string& path, std::uint64_t bytes, std::uint64_t& skip);

    std::vector<std::string> paths_;
    std::vector<std::byte> memory_;
    std::span<std::byte> block_;  ///< in it
};

}  // namespace tutti
