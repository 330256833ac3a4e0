#pragma once
// Rows of a file of comma-separated values.

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace tutti {

/// Labels of a table beyond this are more likely numbers of something else.
inline constexpr std::int64_t most_classes = 1'000'000;

/// RFC 4180: fields in "quotes" may hold the delimiter, line ends and doubled quotes; lines end in \n or
/// \r\n. Empty lines are passed over. Holds one row at a time. Throws DataError naming file and line.
class CsvReader {
  public:
    CsvReader(const std::string& path, char delimiter);

    /// The next row's fields; false at the end.
    bool next(std::vector<std::string>& fields);
    /// Where the row that next() gave last begins, from 1.
    std::int64_t line() const { return line_; }
    [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const;

  private:
    /// Without its end; false at the end of the file. DataError: a zero byte, at which HDF5 would cut a name.
    bool read_line(std::string& line);

    std::string path_;
    char delimiter_;
    std::ifstream file_;
    std::int64_t line_ = 0, lines_read_ = 0;
};

}  // namespace tutti
