// data.transforms: names and parameters of augmentations.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "config_values.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti::config {
namespace {

using Spec = TransformSpec;

constexpr const char* remedy =
    "write an entry as horizontal_flip or as {random_crop: {size: 32, padding: 4}}";

/// One parameter of a transform.
struct Parameter {
    const char* name;
    std::function<void(const Setting&, Spec&)> set;
    std::function<std::string(const Spec&)> print;
};

struct KindOfTransform {
    const char* name;
    Spec::Kind kind;
    std::vector<Parameter> parameters;
    Spec defaults{};
};

template <class T>
Parameter parameter(const char* name, T Spec::*member, const Kind<T>& kind) {
    return {name, [=](const Setting& setting, Spec& spec) { spec.*member = kind.parse(setting); },
            [=](const Spec& spec) { return kind.print(spec.*member); }};
}

/// One number for a square, or [height, width].
Parameter size() {
    const auto side = integer(1, 1 << 16);
    return {"size",
            [=](const Setting& setting, Spec& spec) {
                if (setting.node.IsScalar()) {
                    spec.height = spec.width = side.parse(setting);
                    return;
                }
                if (!setting.node.IsSequence() || setting.node.size() != 2)
                    setting.wrong("a side in pixels or [height, width]");
                const auto sides = list_of(side, 2).parse(setting);
                spec.height = sides[0];
                spec.width = sides[1];
            },
            [](const Spec& spec) {
                return spec.height == spec.width ? fmt::format("{}", spec.height)
                                                 : fmt::format("[{}, {}]", spec.height, spec.width);
            }};
}

/// [least, greatest], both above 0.
Parameter range(const char* name, std::array<double, 2> Spec::*member, double high) {
    const auto list = list_of(number({.low = 0, .high = high, .low_open = true}), 2);
    return {name,
            [=](const Setting& setting, Spec& spec) {
                const std::vector<double> values = list.parse(setting);
                if (values[0] > values[1])
                    setting.fail(fmt::format("{} is above {}", values[0], values[1]),
                                 "write the smaller number first");
                spec.*member = {values[0], values[1]};
            },
            [=](const Spec& spec) {
                return list.print({(spec.*member)[0], (spec.*member)[1]});
            }};
}

/// At least one, above 0 and up to 1.
Parameter scales() {
    const auto list = list_of(number({.low = 0, .high = 1, .low_open = true}));
    return {"scales",
            [=](const Setting& setting, Spec& spec) {
                spec.scales = list.parse(setting);
                if (spec.scales.empty())
                    setting.fail("the list is empty", "give at least one scale, as in [1]");
            },
            [=](const Spec& spec) { return list.print(spec.scales); }};
}

const std::vector<KindOfTransform>& kinds() {
    static const std::vector<KindOfTransform> table = [] {
        const Kind<double> part = number({.low = 0, .high = 1});
        const Parameter p = parameter("p", &Spec::p, part);
        Spec resized_crop;  // torchvision's
        resized_crop.scale = {0.08, 1};
        resized_crop.ratio = {3.0 / 4, 4.0 / 3};
        return std::vector<KindOfTransform>{
            {"horizontal_flip", Spec::Kind::horizontal_flip, {p}},
            {"vertical_flip", Spec::Kind::vertical_flip, {p}},
            {"random_crop",
             Spec::Kind::random_crop,
             {size(), parameter("padding", &Spec::padding, integer(0, 1 << 16))}},
            {"center_crop", Spec::Kind::center_crop, {size()}},
            {"multi_scale_crop", Spec::Kind::multi_scale_crop, {size(), scales()}},
            {"random_resized_crop",
             Spec::Kind::random_resized_crop,
             {size(), range("scale", &Spec::scale, 1), range("ratio", &Spec::ratio, 1e6),
              parameter("center", &Spec::center, number({.low = 0, .high = 1, .low_open = true}))},
             resized_crop},
            {"random_erasing",
             Spec::Kind::random_erasing,
             {p, range("scale", &Spec::scale, 1), range("ratio", &Spec::ratio, 1e6),
              parameter("value", &Spec::value, part)}}};
    }();
    return table;
}

template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
    std::vector<std::string> names;
    for (const Entry& entry : entries) names.emplace_back(entry.name);
    return names;
}

/// The entry of that name, or UsageError with the nearest one.
template <class Entry>
const Entry& find_in(const std::vector<Entry>& entries, const std::string& name, const Setting& setting,
                     const std::string& what) {
    for (const Entry& entry : entries)
        if (entry.name == lower_case(name)) return entry;
    const std::vector<std::string> names = names_of(entries);
    const std::string near = nearest(name, names);
    setting.fail(fmt::format("{} is not {}", name, what),
                 near.empty() ? "use one of " + join(names, ", ") : fmt::format("did you mean {}?", near));
}

void set_parameters(const Setting& setting, const KindOfTransform& kind, const YAML::Node& given,
                    Spec& spec) {
    if (given.IsNull()) return;
    const Setting all{setting.path + "." + kind.name, setting.where, given};
    if (!given.IsMap()) all.wrong("a map of its parameters: " + join(names_of(kind.parameters), ", "));
    std::vector<std::string> seen;
    for (const auto& entry : given) {
        const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "a key that is not text";
        const Parameter& parameter =
            find_in(kind.parameters, name, all, std::string("a parameter of ") + kind.name);
        const Setting one{all.path + "." + parameter.name, setting.where, entry.second};
        if (std::ranges::find(seen, parameter.name) != seen.end())
            one.fail("given twice", "keep one of them");
        seen.emplace_back(parameter.name);
        parameter.set(one, spec);
    }
}

Spec parse_transform(const Setting& setting) {
    const bool is_map =
        setting.node.IsMap() && setting.node.size() == 1 && setting.node.begin()->first.IsScalar();
    if (!setting.node.IsScalar() && !is_map)
        setting.fail(setting.shown() + " does not name one transform", remedy);
    const std::string name = is_map ? setting.node.begin()->first.Scalar() : setting.node.Scalar();
    if (name.empty()) setting.fail("the transform has no name", remedy);
    const KindOfTransform& kind = find_in(kinds(), name, setting, "a transform");
    Spec spec = kind.defaults;
    spec.kind = kind.kind;
    if (is_map) set_parameters(setting, kind, setting.node.begin()->second, spec);
    const bool has_size =
        std::ranges::find(kind.parameters, std::string("size"), &Parameter::name) != kind.parameters.end();
    if (has_size && spec.height == 0)
        setting.fail(fmt::format("{} has no size", kind.name),
                     fmt::format("write {{{}: {{size: 32}}}}", kind.name));
    return spec;
}

std::string print_transform(const Spec& spec) {
    const auto kind = std::ranges::find(kinds(), spec.kind, &KindOfTransform::kind);
    std::vector<std::string> parameters;
    for (const Parameter& parameter : kind->parameters)
        parameters.push_back(fmt::format("{}: {}", parameter.name, parameter.print(spec)));
    return fmt::format("{{{}: {{{}}}}}", kind->name, join(parameters, ", "));
}

}  // namespace

Kind<std::vector<TransformSpec>> transforms() {
    const auto list = list_of(Kind<Spec>{"transforms", parse_transform, print_transform});
    return {"list of transforms",
            [=](const Setting& setting) -> std::vector<Spec> {
                if (setting.node.IsNull()) return {};
                if (!setting.node.IsSequence())
                    setting.wrong("a list of transforms", "write [horizontal_flip], in brackets");
                return list.parse(setting);
            },
            list.print};
}

}  // namespace tutti::config

namespace tutti {

std::string to_text(const TransformSpec& spec) {
    return config::print_transform(spec);
}

}  // namespace tutti
