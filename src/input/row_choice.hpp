#pragma once
// Which rows of a table are packed, and the targets in them.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "csv_fields.hpp"
#include "csv_reader.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {

/// What becomes of a row of which a target is absent: empty, NaN or infinite.
enum class AbsentTargets { leave_out, keep_as_nan };

/// A row is packed where each column of `keep` has one of the values asked for, and where each target is a
/// finite number or absent ones are kept.
class RowChoice {
  public:
    /// places: names of targets, x and y by turns; where there are any, absent targets are kept only as whole
    /// places: who does not know half of one, or something else, has no row. UsageError: a column that is not
    /// there, a target named twice.
    RowChoice(const CsvHeader& header, std::span<const KeptValue> keep, std::span<const std::string> targets,
              AbsentTargets absent = AbsentTargets::leave_out, std::span<const std::string> places = {});

    /// Whether the row is packed; counts it where it is not, or not as it is. A field of a target that is
    /// neither empty nor a number is an error (CsvReader::fail), and so is a finite one beyond 32 bits.
    bool take(const CsvReader& reader, std::span<const std::string> fields);
    /// Of the row that take() took last.
    const std::vector<float>& targets() const { return values_; }
    const RowCounts& counts() const { return counts_; }
    /// DataError where `taken`, the number of rows that were taken, is 0 though the table has some.
    void require_some(const std::string& path, std::int64_t taken) const;

  private:
    struct Value {
        std::string text;
        std::optional<double> number;
    };
    struct Kept {
        std::size_t column;
        std::vector<Value> values;
    };
    bool is_kept(std::span<const std::string> fields) const;
    bool read_targets(const CsvReader& reader, std::span<const std::string> fields);
    bool may_be_filled() const;

    std::vector<Kept> keep_;
    std::vector<std::size_t> target_columns_;
    std::vector<std::string> target_names_;
    AbsentTargets absent_;
    std::vector<std::string> places_;
    std::vector<float> values_;
    RowCounts counts_;
};

}  // namespace tutti
