#pragma once
// A plain read of files from begin to end: the speed that a loader is measured against.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

class SequentialRead {
  public:
    /// Blocks of `block` bytes, always into the same memory.
    SequentialRead(std::vector<std::string> paths, std::size_t block);

    /// Reads with read(2) from `skip` bytes on (after the last file comes the first again), until at least
    /// `bytes` were read.
    /// Returns how many. Throws DataError: a file that cannot be read, or all of them empty.
    std::uint64_t read(std::uint64_t bytes, std::uint64_t skip = 0);

  private:
    std::uint64_t read_file(const std::string& path, std::uint64_t bytes, std::uint64_t& skip);

    std::vector<std::string> paths_;
    std::vector<std::byte> block_;
};

}  // namespace tutti
