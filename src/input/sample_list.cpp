#include "sample_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "csv_fields.hpp"
#include "dataset_writer.hpp"
#include "row_choice.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

std::size_t find_path_column(const CsvReader& reader, const CsvHeader& header, const std::string& wanted) {
    if (!wanted.empty()) return find_column(header, wanted, "--path-column");
    for (const char* name : {"path", "image_path"})
        if (std::ranges::find(header.names, name) != header.names.end())
            return find_column(header, name, "--path-column");
    const std::string other = other_delimiter(header), near = nearest("path", header.names);
    reader.fail("there is no column path, nor image_path",
                !other.empty()
                    ? other
                    : "name the column with the paths: --path-column " + (near.empty() ? "COLUMN" : near));
}

/// Numbers, or names.
class ListedLabels {
  public:
    ListedLabels(const CsvReader& reader, const CsvHeader& header, const ImageSourceOptions& options)
        : reader_(reader),
          column_(options.label.empty() ? "label" : options.label),
          names_(trimmed_class_names(options.class_names)),
          places_(names_) {
        if (options.label.empty() && std::ranges::find(header.names, column_) == header.names.end())
            reader.fail("there is no column label",
                        "name the column with --label COLUMN, give --target COLUMNS for regression, or pack "
                        "without labels: --no-labels");
        index_ = find_column(header, column_, "--label");
    }

    /// The label of a row. Names that --class-names does not number are numbered as they are met, until all
    /// are known.
    std::int64_t add(const std::vector<std::string>& fields) {
        const std::string text(trimmed(fields[index_]));
        if (text.empty())
            reader_.fail("column " + column_ + ": there is no label",
                         "give the row one, leave it out, or pack without labels: --no-labels");
        // Also one that looks like a number, of an aircraft for example.
        const std::optional<std::int64_t> place = places_.find(text);
        const double number = number_in<double>(text).value_or(NAN);
        const Kind kind = place || !std::isfinite(number) ? Kind::name : Kind::number;  // "nan" is a name
        if (kind_ == Kind::none) kind_ = kind;
        if (!names_.empty() && !place && kind_ == Kind::name) fail_outside(text);
        if (kind != kind_) fail_mixed(text, kind);
        if (place) return *place;
        if (kind == Kind::name) return number_of_name(text);
        // A column with blanks, as of rows without a label, is written with fractions by some programs: 1.0.
        if (!(number >= 0 && number < most_classes) || number != std::floor(number))
            reader_.fail("the label is '" + text + "'",
                         fmt::format("number the classes from 0 on, at most {}", most_classes - 1));
        classes_ = std::max(classes_, static_cast<std::int64_t>(number) + 1);
        return static_cast<std::int64_t>(number);
    }

    /// Names get their numbers in sorted order, where --class-names gives no other.
    void number_classes(DatasetInfo& info, std::vector<ListedSample>& samples) {
        const std::int64_t given = std::ssize(names_);
        info.class_names = names_;
        info.classes = given > 0 ? given : classes_;
        if (given > 0 && given < classes_)
            throw UsageError(
                fmt::format("--class-names gives {}, but the column {} has {}", counted(given, "name"),
                            column_, counted(classes_, "class", "classes")),
                "give one name per class, or none");
        if (kind_ != Kind::name || given > 0) return;
        std::vector<std::int64_t> sorted(numbers_.size());
        for (const auto& [name, met] : numbers_) {
            sorted[static_cast<std::size_t>(met)] = info.classes++;
            info.class_names.push_back(name);
        }
        for (ListedSample& sample : samples) sample.label = sorted[static_cast<std::size_t>(sample.label)];
    }

  private:
    enum class Kind { none, number, name };

    std::int64_t number_of_name(const std::string& name) {
        return numbers_.try_emplace(name, static_cast<std::int64_t>(numbers_.size())).first->second;
    }

    [[noreturn]] void fail_outside(const std::string& text) const {
        reader_.fail("the label is '" + text + "', which is not among the --class-names",
                     "correct it, or name all classes");
    }

    [[noreturn]] void fail_mixed(const std::string& text, Kind kind) const {
        if (!names_.empty())
            reader_.fail("the label is '" + text + "', but the one before it is not among the --class-names",
                         "correct that one, or name all classes");
        reader_.fail("the label is '" + text + "', but the one before it is a " +
                         (kind == Kind::number ? "name" : "number"),
                     "give all classes names, or number them from 0 on");
    }

    const CsvReader& reader_;
    const std::string column_;
    const std::vector<std::string> names_;  ///< of --class-names
    const NamePlaces places_;
    std::size_t index_ = 0;
    Kind kind_ = Kind::none;
    std::int64_t classes_ = 0;
    std::map<std::string, std::int64_t> numbers_;  ///< of names as they are met, without --class-names
};

/// Columns with the offset of a row's image in its picture.
class OffsetColumns {
  public:
    OffsetColumns(const CsvReader& reader, const CsvHeader& header, const PlacementSource& source)
        : reader_(reader),
          source_(source),
          x_(find_column(header, source.x, "--placements")),
          y_(find_column(header, source.y, "--placements")) {}

    PictureOffset in(const std::vector<std::string>& fields) const {
        return {number(fields[x_], source_.x), number(fields[y_], source_.y)};
    }

  private:
    double number(const std::string& field, const std::string& column) const {
        const std::optional<double> value = number_in<double>(std::string(trimmed(field)));
        if (value && std::isfinite(*value)) return *value;
        reader_.fail("column " + column + ": '" + field + "' is not a finite number",
                     "give the first pixel's place in the picture, or leave the row out");
    }

    const CsvReader& reader_;
    const PlacementSource& source_;
    std::size_t x_, y_;
};

/// Columns with the first and last frame of a row's clip.
class RangeColumns {
  public:
    RangeColumns(const CsvReader& reader, const CsvHeader& header, const std::vector<std::string>& names)
        : reader_(reader),
          names_(names),
          first_(find_column(header, names[0], "--range")),
          last_(find_column(header, names[1], "--range")) {}

    FrameRange in(const std::vector<std::string>& fields) const {
        const FrameRange range{number(fields[first_], names_[0]), number(fields[last_], names_[1])};
        if (range.first > range.last)
            reader_.fail(
                fmt::format("the clip ends with frame {}, before its first, {}", range.last, range.first),
                "correct the row, or leave it out");
        return range;
    }

  private:
    std::int64_t number(const std::string& field, const std::string& column) const {
        const std::optional<double> value = number_in<double>(field);  // 16.0 as some programs write it
        if (value && std::floor(*value) == *value && std::abs(*value) < 1e15)
            return static_cast<std::int64_t>(*value);
        reader_.fail("column " + column + ": '" + field + "' is not a whole number",
                     "give the number of a frame, or leave the row out");
    }

    const CsvReader& reader_;
    const std::vector<std::string>& names_;
    std::size_t first_, last_;
};

}  // namespace

std::vector<ListedSample> read_sample_list(const ImageSourceOptions& options, DatasetInfo& info,
                                           RowCounts& rows) {
    CsvReader reader(options.csv, options.delimiter);
    const std::vector<std::string> names = column_names(reader, options.csv);
    const CsvHeader header{options.csv, names, options.delimiter};
    const std::size_t path = find_path_column(reader, header, options.path_column);
    std::optional<ListedLabels> labels;
    if (info.labelled) labels.emplace(reader, header, options);
    std::optional<OffsetColumns> offsets;
    if (options.placements && options.placements->from == PlacementSource::From::columns)
        offsets.emplace(reader, header, *options.placements);
    std::optional<RangeColumns> ranges;
    if (!options.frame_range.empty()) ranges.emplace(reader, header, options.frame_range);
    RowChoice choice(header, options.keep, options.targets,
                     options.fill_targets ? AbsentTargets::keep_as_nan : AbsentTargets::leave_out,
                     options.target_pixels);
    std::vector<ListedSample> samples;
    std::vector<std::string> fields;
    while (next_row(reader, header, fields)) {
        end_if_stopped(options.output);
        if (!choice.take(reader, fields)) continue;
        if (trimmed(fields[path]).empty())
            reader.fail("column " + names[path] + ": there is no path", "give the row one, or leave it out");
        samples.push_back({(std::filesystem::path(options.folder) / fields[path]).string(),
                           labels ? labels->add(fields) : 0, choice.targets(),
                           offsets ? offsets->in(fields) : PictureOffset(),
                           ranges ? std::optional(ranges->in(fields)) : std::nullopt, fields[path]});
    }
    choice.require_some(options.csv, static_cast<std::int64_t>(samples.size()));
    rows = choice.counts();
    const auto is_column = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
    rows.unread_range = options.frame_range.empty() && is_column("start") && is_column("end");
    if (samples.empty()) throw DataError(options.csv + ": there are no rows", "give a list that has some");
    if (labels) {
        labels->number_classes(info, samples);
    } else {
        info.class_names = options.class_names;
        info.classes = static_cast<std::int64_t>(info.class_names.size());
    }
    return samples;
}

}  // namespace tutti
