#pragma once
// The IDX format of the MNIST files (Y. LeCun, C. Cortes, C. Burges, "The MNIST database"): a big-endian
// magic number, big-endian 32-bit dimensions, then u8 values. Plain or gzip.

#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Reads one IDX file from begin to end.
class IdxReader {
  public:
    enum class Kind { images, labels };  ///< u8 [N, H, W]; u8 [N]

    /// DataError: missing, another magic number, ends within the header, or says that it holds more than a
    /// file of its size can.
    IdxReader(const std::string& path, Kind kind);

    /// {N, H, W} or {N}.
    std::span<const std::int64_t> dims() const { return dims_; }

    /// The next values. DataError naming the sample: truncated or damaged.
    void read(std::span<std::byte> values);

    /// DataError: the file goes on after the last sample, or its checksum is wrong.
    void require_end();

  private:
    struct Close {
        void operator()(gzFile file) const { gzclose_r(file); }
    };

    std::size_t read_some(std::span<std::byte> bytes);
    std::int64_t read_big_endian();
    std::string content() const;
    /// Before memory for a sample, or for all labels, is taken.
    void require_room_for_values() const;

    std::string path_;
    std::unique_ptr<gzFile_s, Close> file_;
    std::vector<std::int64_t> dims_;
    std::int64_t values_read_ = 0;
};

}  // namespace tutti
