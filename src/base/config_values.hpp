#pragma once
// The kinds of values that keys take: each reads a YAML node and prints a value as YAML again.

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/base/config.hpp"

namespace tutti::config {

/// A value that someone gave for a key. YAML::Node is a reference: assigning one Node to another changes the
/// document it points into, so a Setting is never assigned to, only made anew.
struct Setting {
    static constexpr const char* command_line = "command line";

    std::string path;   ///< "train.batch_size"
    std::string where;  ///< "jobs/x.yaml:7" or command_line
    YAML::Node node;

    /// The value as people wrote it, shortened: "64.5", "[1, 2]", "a map".
    std::string shown() const;
    /// Throws UsageError "WHERE: PATH: problem; remedy".
    [[noreturn]] void fail(const std::string& problem, const std::string& remedy = {}) const;
    /// Throws UsageError "WHERE: PATH: VALUE is not EXPECTED".
    [[noreturn]] void wrong(const std::string& expected, const std::string& remedy = {}) const;
    /// Throws UsageError "WHERE: PATH: KEY is not a key of it" with the near one of `keys`, or the remedy.
    [[noreturn]] void no_key(const std::string& key, const std::vector<std::string>& keys,
                             const std::string& remedy) const;
    /// The text of a scalar; anything else is wrong(expected).
    std::string scalar(const std::string& expected) const;
};

/// A key whose value is a map or a list, as it can be pasted where it was given: for the command line
/// 'train.ema={decay: 0.999}', in a file train: {ema: {decay: 0.999}}. Empty: no example is known.
std::string whole_form(const std::string& path, const std::string& where);

/// How values of T are read and written.
template <class T>
struct Kind {
    std::string type;  ///< for the reference: "integer", "exact | pad"
    std::function<T(const Setting&)> parse;
    std::function<std::string(const T&)> print;  ///< YAML in flow style; parse reads it back
};

/// A range of numbers; the bounds count as inside unless they are marked open.
struct Range {
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
    bool low_open = false;
    bool high_open = false;
};

Kind<bool> boolean();
Kind<std::int64_t> integer(std::int64_t at_least = std::numeric_limits<std::int64_t>::min(),
                           std::int64_t at_most = std::numeric_limits<std::int64_t>::max());
/// 1, 2, 4, … up to at_most.
Kind<std::int64_t> power_of_two(std::int64_t at_most);
/// What a number counts: how messages name it, and what one looks like.
struct Unit {
    const char* name;
    const char* example;
};
Kind<double> number(Range range, std::optional<Unit> unit = {});
/// Any text; `empty_means` says what an empty or null value is for ("none"), and without it these are errors.
Kind<std::string> text(const std::string& type, std::optional<std::string> empty_means = {});
/// text() that names a file or folder: ~/ is the home directory, a variable ($SCRATCH/x) is refused.
Kind<std::string> path(const std::string& type, std::optional<std::string> empty_means = {});
/// A list of path(); a single value is read as a list of one, and a pattern (*, ?, [) as the files that it
/// fits.
Kind<std::vector<std::string>> paths();
Kind<std::vector<TransformSpec>> transforms();
Kind<Interval> interval();
/// Of evaluations, in epochs or steps; a number alone counts epochs.
Kind<Interval> evaluation_interval();
Kind<Normalize> normalize();
Kind<std::vector<LayerSpec>> layers();
Kind<WarmUp> warm_up();
Kind<EmaConfig> ema();
Kind<LossChoice> loss();
Kind<ClassWeightsConfig> class_weights();
/// A name of `validation_metrics` or `ranking_metrics`, or null, which is empty.
Kind<std::string> best_metric();
Kind<EarlyStoppingConfig> early_stopping();

/// One of a fixed set of words; the word "null" is also met by no value.
template <class T>
struct Choice {
    std::string word;
    T value;
};
/// What to do about a number in the place of the warm-up's form: elsewhere it is the length that is called
/// so. Empty where `node` is no number.
std::string warm_up_remedy(const YAML::Node& node);
/// Index into `words` of the setting's text, capitals or not, or UsageError with the allowed words and the
/// nearest one.
std::size_t choose(const Setting& setting, const std::vector<std::string>& words);
std::string join(const std::vector<std::string>& words, std::string_view separator);

template <class T>
Kind<T> choice(const std::vector<Choice<T>>& choices) {
    std::vector<std::string> words;
    for (const auto& one : choices) words.push_back(one.word);
    return {join(words, " | "), [=](const Setting& setting) { return choices[choose(setting, words)].value; },
            [=](const T& value) {
                for (const auto& one : choices)
                    if (one.value == value) return one.word;
                return std::string("null");
            }};
}

/// `kind`, or `absent` ("null", "auto") for no value.
template <class T>
Kind<std::optional<T>> optional(const Kind<T>& kind, const std::string& absent = "null") {
    return {kind.type + " | " + absent,
            [=](const Setting& setting) -> std::optional<T> {
                if (setting.node.IsNull()) return std::nullopt;
                if (setting.node.IsScalar() && setting.node.Scalar() == absent) return std::nullopt;
                return kind.parse(setting);
            },
            [=](const std::optional<T>& value) { return value ? kind.print(*value) : absent; }};
}

/// A list whose entries are all of `kind`; `length` 0 allows any number.
template <class T>
Kind<std::vector<T>> list_of(const Kind<T>& kind, std::size_t length = 0) {
    return {"list of " + kind.type,
            [=](const Setting& setting) {
                if (!setting.node.IsSequence())
                    setting.wrong("a list", "write it in brackets, as in " +
                                                (setting.node.IsScalar() ? "[" + setting.shown() + "]"
                                                                         : std::string("[1, 2]")));
                if (length != 0 && setting.node.size() != length)
                    setting.fail("the list has " + std::to_string(setting.node.size()) +
                                     (setting.node.size() == 1 ? " value" : " values"),
                                 "give " + std::to_string(length));
                std::vector<T> values;
                for (const YAML::Node& entry : setting.node)
                    values.push_back(kind.parse(
                        {setting.path + "[" + std::to_string(values.size()) + "]", setting.where, entry}));
                return values;
            },
            [=](const std::vector<T>& values) {
                std::vector<std::string> printed;
                for (const T& value : values) printed.push_back(kind.print(value));
                return "[" + join(printed, ", ") + "]";
            }};
}

}  // namespace tutti::config
