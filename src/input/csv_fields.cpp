#include "csv_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti {

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

std::vector<std::string> column_names(CsvReader& reader, const std::string& path) {
    std::vector<std::string> names;
    if (!reader.next(names))
        throw DataError(path + ": the file is empty", "its first line must name the columns");
    for (std::string& name : names) name = std::string(trimmed(name));
    return names;
}

bool next_row(CsvReader& reader, const CsvHeader& header, std::vector<std::string>& fields) {
    if (!reader.next(fields)) return false;
    if (fields.size() == header.names.size()) return true;
    const std::string other = other_delimiter(header);
    reader.fail(
        fmt::format("{} fields, but the first line names {} columns", fields.size(), header.names.size()),
        other.empty() ? "correct the line; a field that holds the delimiter must be in \"quotes\"" : other);
}

std::string other_delimiter(const CsvHeader& header) {
    if (header.names.size() != 1) return {};
    for (const auto& [found, option] :
         {std::pair{',', "','"}, std::pair{';', "';'"}, std::pair{'\t', "tab"}, std::pair{'|', "'|'"}})
        if (found != header.delimiter && header.names.front().find(found) != std::string::npos)
            return std::string("its fields seem to be separated otherwise: give --delimiter ") + option;
    return {};
}

std::size_t find_column(const CsvHeader& header, const std::string& name, const std::string& option) {
    const auto found = std::ranges::find(header.names, name);
    if (found != header.names.end()) {
        if (std::find(found + 1, header.names.end(), name) != header.names.end())
            throw UsageError(option + ": " + header.path + " has two columns " + name,
                             "give each column a name of its own");
        return static_cast<std::size_t>(found - header.names.begin());
    }
    if (name.empty())
        throw UsageError(option + ": " + header.path + " has no column without a name",
                         "leave " + option + " '' out; is a variable of a script not set?");
    const std::string near = nearest(name, header.names);
    std::string remedy = other_delimiter(header);
    if (remedy.empty())
        remedy = near.empty() ? fmt::format("its first line names {} columns, the first is {}",
                                            header.names.size(), header.names.front())
                              : "did you mean " + near + "?";
    throw UsageError(option + ": " + header.path + " has no column " + name, remedy);
}

std::vector<std::string> trimmed_class_names(std::span<const std::string> names) {
    std::vector<std::string> result;
    for (const std::string& name : names) {
        if (std::ranges::find(result, trimmed(name)) != result.end())
            throw UsageError("--class-names has " + std::string(trimmed(name)) + " twice",
                             "name each class once");
        result.emplace_back(trimmed(name));
    }
    return result;
}

NamePlaces::NamePlaces(std::span<const std::string> names) {
    for (const std::string& name : names) {
        const auto place = static_cast<std::int64_t>(texts_.size());
        texts_.try_emplace(name, place);
        const std::optional<double> number = number_in<double>(name);
        if (number && std::isfinite(*number)) numbers_.try_emplace(*number, place);
    }
}

std::optional<std::int64_t> NamePlaces::find(const std::string& label) const {
    const auto same = texts_.find(label);
    if (same != texts_.end()) return same->second;
    const std::optional<double> number = number_in<double>(label);
    if (!number || !std::isfinite(*number)) return std::nullopt;
    const auto equal = numbers_.find(*number);
    if (equal == numbers_.end()) return std::nullopt;
    return equal->second;
}

}  // namespace tutti
