#include "row_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr float absent_value = std::numeric_limits<float>::quiet_NaN();

}  // namespace

RowChoice::RowChoice(const CsvHeader& header, std::span<const KeptValue> keep,
                     std::span<const std::string> targets, AbsentTargets absent,
                     std::span<const std::string> places)
    : target_names_(targets.begin(), targets.end()), absent_(absent), places_(places.begin(), places.end()) {
    for (const KeptValue& kept : keep) {
        const std::size_t column = find_column(header, kept.column, "--keep");
        auto found = std::ranges::find(keep_, column, &Kept::column);
        if (found == keep_.end()) found = keep_.insert(found, {column, {}});
        found->values.push_back({std::string(trimmed(kept.value)), number_in<double>(kept.value)});
    }
    for (const std::string& name : targets) {
        const std::size_t column = find_column(header, name, "--target");
        if (std::ranges::find(target_columns_, column) != target_columns_.end())
            throw UsageError("--target names the column " + name + " twice", "name each target once");
        target_columns_.push_back(column);
    }
}

bool RowChoice::take(const CsvReader& reader, std::span<const std::string> fields) {
    if (!is_kept(fields)) {
        ++counts_.not_kept;
        return false;
    }
    if (read_targets(reader, fields)) return true;
    const bool filled = may_be_filled();
    ++(filled ? counts_.filled : counts_.without_target);
    return filled;
}

bool RowChoice::may_be_filled() const {
    if (absent_ == AbsentTargets::leave_out) return false;
    if (places_.empty()) return true;
    std::vector<bool> wanting(values_.size()), of_place(values_.size());
    for (std::size_t i = 0; i < values_.size(); ++i) wanting[i] = std::isnan(values_[i]);
    bool without_place = false;
    const auto index = [this](const std::string& name) {
        return static_cast<std::size_t>(std::ranges::find(target_names_, name) - target_names_.begin());
    };
    for (std::size_t i = 0; i + 1 < places_.size(); i += 2) {
        const std::size_t x = index(places_[i]), y = index(places_[i + 1]);
        if (wanting[x] != wanting[y]) return false;
        without_place |= wanting[x];
        of_place[x] = of_place[y] = true;
    }
    for (std::size_t i = 0; i < values_.size(); ++i)
        if (!of_place[i] && (wanting[i] || (without_place && values_[i] != 0))) return false;
    return true;
}

bool RowChoice::is_kept(std::span<const std::string> fields) const {
    return std::ranges::all_of(keep_, [&](const Kept& kept) {
        const std::string_view text = trimmed(fields[kept.column]);
        const std::optional<double> number = number_in<double>(text);
        return std::ranges::any_of(kept.values, [&](const Value& value) {
            return text == value.text || (number && value.number && *number == *value.number);
        });
    });
}

bool RowChoice::read_targets(const CsvReader& reader, std::span<const std::string> fields) {
    values_.clear();
    bool finite = true;
    // All, so that a field that is no number is told of beside an empty one, too.
    for (std::size_t target = 0; target < target_columns_.size(); ++target) {
        const std::string& text = fields[target_columns_[target]];
        if (trimmed(text).empty()) {
            values_.push_back(absent_value);
            finite = false;
            continue;
        }
        const auto value = number_in<double>(text);
        if (!value)
            reader.fail(fmt::format("column {}: '{}' is not a number", target_names_[target], text),
                        absent_ == AbsentTargets::leave_out
                            ? "correct it, or leave the field empty: rows without a target are left out"
                            : "correct it, or leave the field empty for --fill-targets");
        values_.push_back(static_cast<float>(*value));
        if (std::isfinite(*value) && !std::isfinite(values_.back()))
            reader.fail(
                fmt::format("column {}: {} is not a finite number of 32 bits", target_names_[target], text),
                "give the target in another unit");
        if (std::isfinite(*value)) continue;
        values_.back() = absent_value;
        finite = false;
    }
    return finite;
}

void RowChoice::require_some(const std::string& path, std::int64_t taken) const {
    const std::int64_t rows = counts_.not_kept + counts_.without_target;
    if (taken > 0 || rows == 0) return;
    throw DataError(
        fmt::format("{}: of {} rows none is left: --keep leaves out {}, and {} have no finite target", path,
                    rows, counts_.not_kept, counts_.without_target),
        "check --keep and --target");
}

}  // namespace tutti
