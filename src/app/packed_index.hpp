#pragma once
// Where the samples of a packed data set come from, as a table beside it.

#include <string>
#include <vector>

#include "tutti/input/pack.hpp"

namespace tutti {

class OptionParser;

/// --index of packers: a CSV file (RFC 4180) with a line for each sample, its number in the data set and
/// where it comes from, by which predictions are joined with a table of one's own. It is held until it is
/// written, about the length of its lines.
class PackedIndex {
  public:
    /// columns: behind "index". more: what else the help says of them.
    void add_option(OptionParser& parser, std::vector<std::string> columns, const std::string& more = {});
    /// Columns that some arguments bring, behind the others.
    void add_columns(const std::vector<std::string>& columns);
    /// UsageError where the file cannot be made, is `table`, what is packed, or anything else than an index.
    /// Before the data are packed to `output`.
    void prepare(const std::string& output, const std::string& table = {});
    /// What the packer is to tell; it must not outlive this.
    PackedFrom note();
    /// Once the data set is there. RunError where it fails.
    void write() const;

  private:
    std::string path_, output_, text_;
    std::vector<std::string> columns_;
    std::size_t count_ = 0;
};

}  // namespace tutti
