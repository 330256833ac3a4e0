#pragma once
// Matrices in files of NumPy.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

/// What a matrix is of, for messages.
struct MatrixMeaning {
    const char* shape = "[seconds, features]";
    const char* row = "second";
    const char* values = "features";
    const char* missing = "check the path, or extract the features";
};

/// A .npy file (the format of numpy.lib.format, versions 1 to 3) of a matrix of f16, f32 or f64,
/// little-endian, in C order. Holds the file open, not its values. Throws DataError naming the file: missing,
/// cut off, of another type, order or number of dimensions. Several threads may read one.
class NpyFile {
  public:
    explicit NpyFile(const std::string& path, const MatrixMeaning& meaning = {});
    ~NpyFile();
    NpyFile(const NpyFile&) = delete;
    NpyFile& operator=(const NpyFile&) = delete;

    const std::string& path() const { return path_; }
    std::int64_t rows() const { return rows_; }
    std::int64_t columns() const { return columns_; }

    /// Rows first … first + count − 1, which must be there; each begins `stride` floats behind the one
    /// before.
    void read(std::int64_t first, std::int64_t count, float* to, std::int64_t stride) const;

  private:
    enum class Type { f16, f32, f64 };

    void read_header();
    void take_header(const std::string& text);
    void read_bytes(std::int64_t at, std::byte* to, std::size_t count) const;
    std::int64_t value_bytes() const;

    std::string as_floats() const;

    std::string path_;
    MatrixMeaning meaning_;
    int file_ = -1;
    Type type_ = Type::f32;
    std::int64_t rows_ = 0, columns_ = 0;
    std::int64_t begin_ = 0;  ///< of the values, in bytes
};

/// IEEE binary16 as binary32, exact.
float half_to_float(std::uint16_t half);

}  // namespace tutti
