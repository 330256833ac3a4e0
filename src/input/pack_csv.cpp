#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "csv_fields.hpp"
#include "csv_reader.hpp"
#include "dataset_writer.hpp"
#include "pack_normalisation.hpp"
#include "row_choice.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/units.hpp"
#include "tutti/base/utf8.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

using Warn = std::function<void(const std::string&)>;

/// Which columns hold what.
struct Columns {
    std::vector<std::string> names;
    std::optional<std::size_t> label;
    std::vector<std::size_t> features;

    CsvHeader header(const PackCsvOptions& options) const { return {options.csv, names, options.delimiter}; }
};

bool has_labels(const PackCsvOptions& options) {
    return options.labelled && options.targets.empty();
}

Columns read_columns(CsvReader& reader, const PackCsvOptions& options) {
    Columns columns;
    columns.names = column_names(reader, options.csv);
    std::set<std::string> known;
    for (const std::string& name : columns.names)
        if (!known.insert(name).second)
            reader.fail(name.empty() ? std::string("two columns have no name")
                                     : "two columns have the name '" + name + "'",
                        "give each column a name of its own");
    const CsvHeader header = columns.header(options);
    std::vector<bool> out(columns.names.size());
    if (has_labels(options)) {
        columns.label = find_column(header, options.label, "--label");
        out[*columns.label] = true;
    }
    for (const std::string& name : options.targets) out[find_column(header, name, "--target")] = true;
    for (const std::string& name : options.drop) {
        const std::size_t column = find_column(header, name, "--drop");
        if (column == columns.label)
            throw UsageError("--drop " + name + " leaves out the column of --label",
                             "drop another column, or pack without labels: --no-labels");
        if (std::ranges::find(options.targets, name) != options.targets.end())
            throw UsageError("--drop " + name + " leaves out a column of --target",
                             "drop another column, or do not name it as a target");
        out[column] = true;
    }
    for (std::size_t i = 0; i < out.size(); ++i)
        if (!out[i]) columns.features.push_back(i);
    if (columns.features.empty())
        throw DataError(options.csv + (has_labels(options)        ? ": there is no column beside the label"
                                       : !options.targets.empty() ? ": there is no column beside the targets"
                                                                  : ": all columns are dropped"),
                        "give data with features");
    return columns;
}

/// A column with blanks is written with fractions by some programs: 1.0.
bool is_whole(const std::optional<double>& number) {
    return number && std::isfinite(*number) && *number == std::floor(*number);
}

/// Labels as the column has them, and what they become.
class LabelColumn {
  public:
    explicit LabelColumn(const PackCsvOptions& options)
        : options_(options),
          given_(trimmed_class_names(options.class_names)),
          places_(given_),
          where_("the column " + options.label) {}

    /// Blanks around a label are none of it, as around a number.
    void add(const std::string& text, std::int64_t line) {
        labels_.try_emplace(std::string(trimmed(text)), Label{0, line});
    }

    /// Where one of them is among --class-names, all have their places there, also those that look like
    /// numbers. Else whole numbers from 0 on stay what they are; anything else is a name, numbered in sorted
    /// order.
    void number_classes(DatasetInfo& info, const Warn& warn) {
        const auto is_given = [&](const auto& label) { return places_.find(label.first).has_value(); };
        const auto is_number = [](const auto& label) { return is_whole(number_in<double>(label.first)); };
        if (std::ranges::any_of(labels_, is_given))
            find_names(info);
        else if (std::ranges::all_of(labels_, is_number))
            keep_numbers(info, warn);
        else if (given_.empty())
            number_names(info, warn);
        else
            find_names(info);
        if (given_.empty()) return;
        if (std::ssize(given_) < info.classes)
            throw UsageError(
                fmt::format("--class-names gives {}, but {} has {}", counted(given_.size(), "name"), where_,
                            counted(info.classes, "class", "classes")),
                "give one name per class, or none");
        info.class_names = given_;
        info.classes = std::ssize(given_);
    }

    /// Of a text that was added.
    std::optional<std::int64_t> operator[](const std::string& text) const {
        const auto found = labels_.find(std::string(trimmed(text)));
        if (found == labels_.end()) return std::nullopt;
        return found->second.number;
    }

  private:
    struct Label {
        std::int64_t number;
        std::int64_t line;  // where it is met first
    };

    void keep_numbers(DatasetInfo& info, const Warn& warn) {
        std::set<std::int64_t> used;
        for (auto& [text, label] : labels_) {
            const double value = *number_in<double>(text);
            if (value < 0 || value >= static_cast<double>(most_classes))
                throw DataError(
                    fmt::format("{}:{}: {} has the label {}", options_.csv, label.line, where_, text),
                    fmt::format("labels are classes from 0 on, at most {}; number them so, or "
                                "give names",
                                most_classes - 1));
            label.number = static_cast<std::int64_t>(value);
            used.insert(label.number);
        }
        info.classes = *used.rbegin() + 1;
        for (std::int64_t i = 0; i < info.classes; ++i) info.class_names.push_back(std::to_string(i));
        if (info.classes > 2 * static_cast<std::int64_t>(used.size()))
            warn(fmt::format("{}: {} has labels up to {}, but only {} of these classes have samples; {}",
                             options_.csv, where_, info.classes - 1, used.size(), remedy_for_numbers()));
    }

    std::string remedy_for_numbers() const {
        return "where numbers are to be predicted and not classes, give --target " +
               shell_word(options_.label) + " in place of --label";
    }

    void number_names(DatasetInfo& info, const Warn& warn) {
        std::vector<std::pair<double, std::string>> sorted;  // those that are numbers by their value
        std::size_t numbers = 0;
        for (const auto& [text, label] : labels_) {
            const std::optional<double> value = number_in<double>(text);
            if (value && std::isfinite(*value)) ++numbers;
            sorted.emplace_back(value.value_or(0), text);
        }
        if (numbers == sorted.size()) std::ranges::sort(sorted);
        for (const auto& [value, text] : sorted) {
            labels_[text].number = info.classes++;
            info.class_names.push_back(text);
        }
        if (numbers > 0)
            warn(
                fmt::format("{}: {} of the {} labels of {} are numbers, but not all are whole ones: they are "
                            "taken as names{}",
                            options_.csv, numbers, labels_.size(), where_,
                            numbers == sorted.size() ? "; " + remedy_for_numbers() : ""));
    }

    void find_names(DatasetInfo& info) {
        for (auto& [text, label] : labels_) {
            const std::optional<std::int64_t> place = places_.find(text);
            if (!place)
                throw DataError(
                    fmt::format("{}:{}: {} has the label {}, which is not among the --class-names",
                                options_.csv, label.line, where_, text),
                    "correct it, or name all classes");
            label.number = *place;
        }
        info.classes = std::ssize(given_);
    }

    const PackCsvOptions& options_;
    const std::vector<std::string> given_;  ///< --class-names
    const NamePlaces places_;
    std::string where_;
    std::map<std::string, Label> labels_;
};

std::string called(const CsvHeader& header, std::size_t column) {
    const std::string& name = header.names[column];
    return name.empty() ? fmt::format("column {} (without a name)", column + 1) : "column " + name;
}

/// What programs write where there is no value, beside nothing.
bool is_missing(std::string_view text) {
    constexpr std::array<std::string_view, 8> words{"", "nan", "na", "n/a", "null", "none", "<na>", "?"};
    return std::ranges::find(words, lower_case(trimmed(text))) != words.end();
}

/// What to do about a field that is no feature.
std::string remedy_for_field(const CsvHeader& header, std::size_t column, const std::string& text) {
    if (const std::string other = other_delimiter(header); !other.empty()) return other;
    const std::string name = header.names[column],
                      drop = "leave the column out with --drop " + shell_word(name);
    // A column of nothing else, behind a comma at the end of each line, holds no values to fill.
    if (name.empty()) return drop + ", or give it a name";
    if (is_missing(text))
        return fmt::format(
            "fill what is missing, in pandas with fillna, leave such rows out, with dropna, or {}", drop);
    const std::string word = lower_case(trimmed(text));
    if (word == "true" || word == "false") return "store 1 and 0, in pandas with astype(int), or " + drop;
    return drop + ", or correct it";
}

float feature(const CsvReader& reader, const CsvHeader& header, std::size_t column, const std::string& text) {
    const auto value = number_in<double>(text);
    if (!value)
        reader.fail(fmt::format("{}: '{}' is not a number", called(header, column), text),
                    remedy_for_field(header, column, text));
    const auto single = static_cast<float>(*value);
    if (!std::isfinite(single))
        reader.fail(fmt::format("{}: {} is not a finite number of 32 bits", called(header, column), text),
                    std::isnan(single) ? remedy_for_field(header, column, text) : "features must be finite");
    return single;
}

/// An index that pandas' to_csv() wrote and, in the second case, read_csv() has named.
void warn_of_unnamed(const CsvHeader& header, const Columns& columns, const Warn& warn) {
    for (const std::size_t column : columns.features) {
        const std::string& name = header.names[column];
        if (!name.empty() && !name.starts_with("Unnamed: ")) continue;
        warn(
            fmt::format("{}: {} becomes a feature; if it only counts the rows, as pandas' to_csv() does "
                        "unless index=False, leave it out with --drop {}",
                        header.path, called(header, column), shell_word(name)));
    }
}

/// The first pass: how many rows and which labels there are.
Columns scan_rows(const PackCsvOptions& options, const PackNormalisation& normalisation, DatasetInfo& info,
                  LabelColumn& labels, RowCounts* rows) {
    CsvReader reader(options.csv, options.delimiter);
    const Columns columns = read_columns(reader, options);
    info.sample_shape = {static_cast<std::int64_t>(columns.features.size())};
    for (const std::size_t column : columns.features)
        info.feature_names.push_back(as_utf8(columns.names[column]));
    normalisation.put_into(info);
    const CsvHeader header = columns.header(options);
    RowChoice choice(header, options.keep, options.targets);
    std::vector<std::string> fields;
    while (next_row(reader, header, fields)) {
        end_if_stopped(options.output);
        if (!choice.take(reader, fields)) continue;
        ++info.samples;
        if (!columns.label) continue;
        if (trimmed(fields[*columns.label]).empty())
            reader.fail("column " + options.label + ": there is no label",
                        "give the row one, leave it out, or pack without labels: --no-labels");
        labels.add(fields[*columns.label], reader.line());
    }
    choice.require_some(options.csv, info.samples);
    if (rows != nullptr) *rows = choice.counts();
    return columns;
}

/// The second pass.
void write_rows(const PackCsvOptions& options, const Columns& columns, const LabelColumn& labels,
                const DatasetInfo& info) {
    DatasetWriter writer(options.output, info,
                         "CSV: " + std::filesystem::path(options.csv).filename().string());
    CsvReader reader(options.csv, options.delimiter);
    std::vector<std::string> fields;
    reader.next(fields);
    const CsvHeader header = columns.header(options);
    RowChoice choice(header, options.keep, options.targets);
    std::vector<float> piece, piece_targets;
    std::vector<std::int64_t> piece_labels;
    const auto flush = [&] {
        writer.append(std::as_bytes(std::span(piece)), piece_labels, piece_targets);
        piece.clear();
        piece_labels.clear();
        piece_targets.clear();
    };
    while (next_row(reader, header, fields)) {
        end_if_stopped(options.output);
        if (!choice.take(reader, fields)) continue;
        for (const std::size_t column : columns.features)
            piece.push_back(feature(reader, header, column, fields[column]));
        if (columns.label) {
            const std::optional<std::int64_t> label = labels[fields[*columns.label]];
            if (!label) reader.fail("the file was changed while it was read", "pack it again");
            piece_labels.push_back(*label);
        }
        if (options.from) options.from({std::to_string(reader.line())});
        piece_targets.insert(piece_targets.end(), choice.targets().begin(), choice.targets().end());
        if (static_cast<std::int64_t>(piece.size() * sizeof(float)) >= packed_piece_bytes) flush();
    }
    flush();
    writer.commit();
}

}  // namespace

DatasetInfo pack_csv(const PackCsvOptions& options, const std::function<void(const std::string&)>& warning,
                     RowCounts* rows) {
    const Warn warn = warning ? warning : [](const std::string&) {};
    refuse_overwriting(options.output, options.csv);
    const PackNormalisation normalisation(options.mean, options.std);
    DatasetInfo info;
    info.dtype = DType::f32;
    info.labelled = has_labels(options);
    info.targets = static_cast<std::int64_t>(options.targets.size());
    info.target_names = options.targets;
    LabelColumn labels(options);
    const Columns columns = scan_rows(options, normalisation, info, labels, rows);
    warn_of_unnamed(columns.header(options), columns, warn);
    if (info.samples == 0) throw DataError(options.csv + ": there are no rows", "give data that have some");
    if (info.labelled) {
        labels.number_classes(info, warn);
    } else {
        info.class_names = options.class_names;
        info.classes = static_cast<std::int64_t>(info.class_names.size());
    }
    write_rows(options, columns, labels, info);
    return info;
}

}  // namespace tutti
