#pragma once
// What fields of a table say, where its columns are, and its rows.

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "csv_reader.hpp"

namespace tutti {

/// Without blanks around it.
std::string_view trimmed(std::string_view text);

/// The text without blanks around it as a number, whole. One that is nearer to 0 than T can say is 0 or the
/// nearest to it; one that is larger than T can say is none.
template <class T>
std::optional<T> number_in(std::string_view text) {
    text = trimmed(text);
    if (text.starts_with('+')) text.remove_prefix(1);
    T value{};
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if constexpr (std::is_floating_point_v<T>)
        if (status == std::errc::result_out_of_range && rest == text.data() + text.size()) {
            const T nearest = static_cast<T>(std::strtod(std::string(text).c_str(), nullptr));
            if (nearest > -1 && nearest < 1) return nearest;
        }
    if (status != std::errc() || rest != text.data() + text.size()) return std::nullopt;
    return value;
}

/// --class-names without the blanks around them. Throws UsageError where one stands twice.
std::vector<std::string> trimmed_class_names(std::span<const std::string> names);

/// Where each of --class-names has its place.
class NamePlaces {
  public:
    explicit NamePlaces(std::span<const std::string> names);
    /// Of a label that is one of them: the same text or, of numbers, the same value: 1.0 is 1.
    std::optional<std::int64_t> find(const std::string& label) const;

  private:
    std::map<std::string, std::int64_t> texts_;
    std::map<double, std::int64_t> numbers_;
};

/// The names in a table's first line, for messages.
struct CsvHeader {
    std::string path;
    std::span<const std::string> names;
    char delimiter = ',';
};

/// The first line of the table at `path`. DataError: there is none.
std::vector<std::string> column_names(CsvReader& reader, const std::string& path);

/// The next row; false at the end. DataError: it has more or fewer fields than there are columns.
bool next_row(CsvReader& reader, const CsvHeader& header, std::vector<std::string>& fields);

/// What to say of a table that seems to have one column; else nothing.
std::string other_delimiter(const CsvHeader& header);

/// Where the column is that `option` names. UsageError: there is none, with what may be meant, or two.
std::size_t find_column(const CsvHeader& header, const std::string& name, const std::string& option);

}  // namespace tutti
