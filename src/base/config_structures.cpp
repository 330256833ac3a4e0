// Kinds of values with an inner structure: intervals, normalisation, layers.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"

#include "config_values.hpp"

namespace tutti::config {
namespace {

constexpr const char* interval_remedy = "write for example 1 epoch, 200 steps, 10 min or never";
constexpr const char* layer_remedy = "write its arguments by name, as in {linear: {out: 128}}";

constexpr std::int64_t most_exact = 9'000'000'000'000'000;  // whole numbers are exact as double so far

Interval::Unit unit_of(std::string_view word, const Setting& setting) {
    if (word.empty()) setting.fail(setting.shown() + " has no unit", interval_remedy);
    if (word == "epoch" || word == "epochs") return Interval::Unit::epochs;
    if (word == "step" || word == "steps") return Interval::Unit::steps;
    if (word == "min" || word == "minute" || word == "minutes") return Interval::Unit::minutes;
    setting.wrong("an interval in epochs, steps or min", interval_remedy);
}

Interval parse_interval(const Setting& setting) {
    static constexpr Interval never{0, Interval::Unit::epochs};
    const std::string given = setting.scalar("an interval");
    if (given == "never") return never;

    double count = 0;
    const char* const end = given.data() + given.size();
    const auto [rest, status] = std::from_chars(given.data(), end, count);
    if (status != std::errc() || !std::isfinite(count) || count < 0)
        setting.wrong("an interval", interval_remedy);
    std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
    if (count == 0 && unit.empty()) return never;

    if (count > static_cast<double>(most_exact)) setting.wrong("an interval", "write never for none");
    const Interval result{count, unit_of(unit, setting)};
    if (result.unit != Interval::Unit::minutes && count != std::floor(count))
        setting.wrong("an interval of whole epochs or steps", interval_remedy);
    return count == 0 ? never : result;
}

/// How often a run is evaluated does not depend on how fast it goes.
Interval parse_evaluation_interval(const Setting& setting) {
    const std::string expected = "a number of epochs, or of steps";
    const std::string remedy = "write for example 1 or 2 epochs, 500 steps, or 0 for only at the end";
    const std::string given = setting.scalar(expected);
    const std::size_t digits = given.starts_with('+') ? 1 : 0;
    const bool counts_epochs =
        given.size() > digits && given.find_first_not_of("0123456789", digits) == std::string::npos;
    if (counts_epochs) return {static_cast<double>(integer(0, most_exact).parse(setting))};
    Interval result;
    try {
        result = parse_interval(setting);
    } catch (const UsageError&) {
        setting.wrong(expected, remedy);
    }
    if (result.unit == Interval::Unit::minutes) setting.wrong(expected, remedy);
    return result;
}

std::string print_interval(const Interval& value) {
    if (value.count == 0) return "never";
    const char* const plural = value.count == 1 ? "" : "s";
    switch (value.unit) {
        case Interval::Unit::epochs:
            return fmt::format("{} epoch{}", value.count, plural);
        case Interval::Unit::steps:
            return fmt::format("{} step{}", value.count, plural);
        case Interval::Unit::minutes:
            return fmt::format("{} min", value.count);
    }
    return "never";
}

/// One number or a list of them.
std::vector<double> constants(const Setting& setting, Range range) {
    const auto entry = number(range);
    if (setting.node.IsScalar()) return {entry.parse(setting)};
    auto values = list_of(entry).parse(setting);
    if (values.empty()) setting.fail("the list is empty", "give one value, or one per channel");
    return values;
}

Normalize parse_normalize(const Setting& setting) {
    const std::string remedy = "write " + whole_form(setting.path, setting.where);
    if (!setting.node.IsMap()) setting.wrong("a map of mean and std", remedy);
    std::optional<std::vector<double>> mean, deviation;
    for (const auto& entry : setting.node) {
        const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "a key that is not text";
        auto* const target = key == "mean" ? &mean : key == "std" ? &deviation : nullptr;
        if (!target) setting.no_key(key, {"mean", "std"}, remedy);
        if (*target) setting.fail(key + " is given twice", "keep one of them");
        const Range range{.low = key == "std" ? 0 : -std::numeric_limits<double>::infinity(),
                          .low_open = key == "std"};
        *target = constants({setting.path + "." + key, setting.where, entry.second}, range);
    }
    if (!mean || !deviation)
        setting.fail(!mean && !deviation ? "there is neither mean nor std"
                                         : fmt::format("{} is given without {}", mean ? "mean" : "std",
                                                       mean ? "std" : "mean"),
                     fmt::format("{}, or null for those of the data", remedy));
    const Normalize result{*mean, *deviation};
    if (result.mean.size() != result.std.size() && result.mean.size() != 1 && result.std.size() != 1)
        setting.fail(fmt::format("mean has {} and std has {}", counted(result.mean.size(), "value"),
                                 result.std.size()),
                     "give both one value per channel, or one value for all");
    return result;
}

/// The texts of a layer's argument: one, or several for a list.
std::vector<std::string> argument_texts(const Setting& argument) {
    static constexpr const char* expected = "a value or a list of values";
    if (argument.node.IsScalar()) return {argument.node.Scalar()};
    if (!argument.node.IsSequence()) argument.wrong(expected);
    std::vector<std::string> texts;
    for (const YAML::Node& entry : argument.node) {
        if (!entry.IsScalar())
            argument.fail("the list holds something else than single values", "do not nest lists");
        texts.push_back(entry.Scalar());
    }
    return texts;
}

/// One entry of model.layers: `relu`, or a map with one key whose value is a map of arguments.
LayerSpec parse_layer(const Setting& setting) {
    LayerSpec layer;
    layer.where = setting.path;
    if (setting.node.IsScalar()) {
        layer.kind = setting.node.Scalar();
        if (layer.kind.empty()) setting.fail("the layer has no name", layer_remedy);
        return layer;
    }
    if (!setting.node.IsMap() || setting.node.size() != 1 || !setting.node.begin()->first.IsScalar())
        setting.fail(setting.shown() + " does not name one layer",
                     "write an entry as relu or as {conv2d: {out: 32, kernel: 3}}");
    layer.kind = setting.node.begin()->first.Scalar();
    const YAML::Node arguments = setting.node.begin()->second;
    if (arguments.IsNull()) return layer;
    if (!arguments.IsMap()) {
        const Setting short_form{setting.path, setting.where, arguments};
        setting.fail(
            fmt::format("the value of {} is {}, which names no argument", layer.kind, short_form.shown()),
            layer_remedy);
    }
    for (const auto& entry : arguments) {
        if (!entry.first.IsScalar()) setting.fail("an argument's name is not text", layer_remedy);
        const std::string& name = entry.first.Scalar();
        const Setting argument{fmt::format("{}.{}.{}", setting.path, layer.kind, name), setting.where,
                               entry.second};
        if (!layer.arguments.emplace(name, argument_texts(argument)).second)
            argument.fail("given twice", "keep one of them");
    }
    return layer;
}

std::string print_layer(const LayerSpec& layer) {
    if (layer.arguments.empty()) return quoted_scalar(layer.kind);
    std::vector<std::string> arguments;
    for (const auto& [name, values] : layer.arguments) {
        std::vector<std::string> texts;
        for (const std::string& value : values) texts.push_back(quoted_scalar(value));
        const std::string text = values.size() == 1 ? texts.front() : "[" + join(texts, ", ") + "]";
        arguments.push_back(quoted_scalar(name) + ": " + text);
    }
    return fmt::format("{{{}: {{{}}}}}", quoted_scalar(layer.kind), join(arguments, ", "));
}

}  // namespace

Kind<Interval> interval() {
    return {"N epochs | N steps | N min | never", parse_interval, print_interval};
}

Kind<Interval> evaluation_interval() {
    return {"N | N epochs | N steps", parse_evaluation_interval, [](const Interval& value) {
                return value.unit == Interval::Unit::epochs ? fmt::format("{}", value.count)
                                                            : print_interval(value);
            }};
}

Kind<Normalize> normalize() {
    const auto list = list_of(number({}));
    return {"{mean: [...], std: [...]}", parse_normalize, [=](const Normalize& value) {
                return fmt::format("{{mean: {}, std: {}}}", list.print(value.mean), list.print(value.std));
            }};
}

Kind<std::vector<LayerSpec>> layers() {
    const auto list = list_of(Kind<LayerSpec>{"layers", parse_layer, print_layer});
    return {list.type,
            [=](const Setting& setting) {
                if (setting.node.IsNull()) return std::vector<LayerSpec>{};
                auto specs = list.parse(setting);
                if (specs.empty())
                    setting.fail("the list of layers is empty", "name a model or list its layers");
                return specs;
            },
            [=](const std::vector<LayerSpec>& specs) { return specs.empty() ? "null" : list.print(specs); }};
}

}  // namespace tutti::config
