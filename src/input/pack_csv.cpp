#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "csv_reader.hpp"
#include "dataset_writer.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;
/// Labels beyond this are more likely numbers of something else.
constexpr std::int64_t most_classes = 1'000'000;

/// The text without blanks around it as a number, whole.
template <class T>
std::optional<T> number_in(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    if (text.starts_with('+')) text.remove_prefix(1);
    T value{};
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || rest != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Which columns hold what.
struct Columns {
    std::vector<std::string> names;
    std::size_t label = 0;
    std::vector<std::size_t> features;
};

std::size_t find_column(const Columns& columns, const std::string& name, const std::string& option,
                        const std::string& path) {
    const auto found = std::ranges::find(columns.names, name);
    if (found != columns.names.end()) return static_cast<std::size_t>(found - columns.names.begin());
    const std::string near = nearest(name, columns.names);
    throw UsageError(option + ": " + path + " has no column " + name,
                     near.empty() ? fmt::format("its first line names {} columns, the first is {}",
                                                columns.names.size(), columns.names.front())
                                  : "did you mean " + near + "?");
}

Columns read_columns(CsvReader& reader, const PackCsvOptions& options) {
    Columns columns;
    if (!reader.next(columns.names))
        throw DataError(options.csv + ": the file is empty", "its first line must name the columns");
    columns.label = find_column(columns, options.label, "--label", options.csv);
    std::vector<bool> out(columns.names.size());
    out[columns.label] = true;
    for (const std::string& name : options.drop)
        out[find_column(columns, name, "--drop", options.csv)] = true;
    for (std::size_t i = 0; i < out.size(); ++i)
        if (!out[i]) columns.features.push_back(i);
    if (columns.features.empty())
        throw DataError(options.csv + ": there is no column beside the label", "give data with features");
    return columns;
}

bool next_row(CsvReader& reader, const Columns& columns, std::vector<std::string>& fields) {
    if (!reader.next(fields)) return false;
    if (fields.size() != columns.names.size())
        reader.fail(fmt::format("{} fields, but the first line names {} columns", fields.size(),
                                columns.names.size()));
    return true;
}

/// Labels as the column has them, and what they become.
class LabelColumn {
  public:
    void add(const std::string& text) { ++numbers_.emplace(text, 0).first->second; }

    /// Whole numbers from 0 on stay what they are; anything else is a name, numbered in sorted order.
    void number_classes(DatasetInfo& info, const PackCsvOptions& options) {
        std::int64_t largest = -1;
        bool whole = true;
        for (const auto& [text, number] : numbers_) {
            const auto value = number_in<std::int64_t>(text);
            whole = whole && value && *value >= 0;
            if (value) largest = std::max(largest, *value);
        }
        if (whole && largest >= most_classes)
            throw DataError(
                fmt::format("{}: the column {} has the label {}", options.csv, options.label, largest),
                "labels are numbers of classes, from 0 on");
        std::int64_t next = 0;
        for (auto& [text, number] : numbers_) {
            number = whole ? *number_in<std::int64_t>(text) : next++;
            if (!whole) info.class_names.push_back(text);
        }
        info.classes = whole ? largest + 1 : next;
        if (whole)
            for (std::int64_t i = 0; i < info.classes; ++i) info.class_names.push_back(std::to_string(i));
        if (options.class_names.empty()) return;
        if (static_cast<std::int64_t>(options.class_names.size()) < info.classes || !whole)
            throw UsageError(
                fmt::format("--class-names gives {} names, but the column {} {}", options.class_names.size(),
                            options.label,
                            whole ? fmt::format("has {} classes", info.classes) : "names its classes itself"),
                "give one name per class, or none");
        info.class_names = options.class_names;
        info.classes = static_cast<std::int64_t>(info.class_names.size());
    }

    /// Of a text that was added.
    std::optional<std::int64_t> operator[](const std::string& text) const {
        const auto found = numbers_.find(text);
        if (found == numbers_.end()) return std::nullopt;
        return found->second;
    }

  private:
    std::map<std::string, std::int64_t> numbers_;
};

float feature(const CsvReader& reader, const std::string& name, const std::string& text) {
    const auto value = number_in<double>(text);
    if (!value)
        reader.fail(fmt::format("column {}: '{}' is not a number", name, text),
                    "leave the column out with --drop " + name + ", or correct it");
    const auto single = static_cast<float>(*value);
    if (!std::isfinite(single))
        reader.fail(fmt::format("column {}: {} is not a finite number of 32 bits", name, text),
                    "features must be finite");
    return single;
}

}  // namespace

DatasetInfo pack_csv(const PackCsvOptions& options) {
    refuse_overwriting(options.output, options.csv);
    DatasetInfo info;
    info.dtype = DType::f32;
    info.mean = options.mean;
    info.std = options.std;
    std::vector<std::string> fields;
    LabelColumn labels;
    Columns columns;
    {
        // First how many rows and which labels there are.
        CsvReader reader(options.csv, options.delimiter);
        columns = read_columns(reader, options);
        while (next_row(reader, columns, fields)) {
            end_if_stopped(options.output);
            if (fields[columns.label].empty()) reader.fail("column " + options.label + ": there is no label");
            labels.add(fields[columns.label]);
            ++info.samples;
        }
    }
    if (info.samples == 0) throw DataError(options.csv + ": there are no rows", "give data that have some");
    labels.number_classes(info, options);
    info.sample_shape = {static_cast<std::int64_t>(columns.features.size())};

    DatasetWriter writer(options.output, info,
                         "CSV: " + std::filesystem::path(options.csv).filename().string());
    CsvReader reader(options.csv, options.delimiter);
    reader.next(fields);
    std::vector<float> piece;
    std::vector<std::int64_t> piece_labels;
    const auto flush = [&] {
        writer.append(std::as_bytes(std::span(piece)), piece_labels);
        piece.clear();
        piece_labels.clear();
    };
    while (next_row(reader, columns, fields)) {
        end_if_stopped(options.output);
        for (const std::size_t column : columns.features)
            piece.push_back(feature(reader, columns.names[column], fields[column]));
        const std::optional<std::int64_t> label = labels[fields[columns.label]];
        if (!label) reader.fail("the file was changed while it was read", "pack it again");
        piece_labels.push_back(*label);
        if (static_cast<std::int64_t>(piece.size() * sizeof(float)) >= piece_bytes) flush();
    }
    flush();
    writer.commit();
    return info;
}

}  // namespace tutti
