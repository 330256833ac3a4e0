#include "tutti/train/normalisation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tutti/base/error.hpp"
#include "tutti/base/json_input.hpp"
#include "tutti/train/objective.hpp"

namespace tutti {
namespace {

std::vector<float> per_channel(const std::vector<double>& values, std::size_t channels) {
    std::vector<float> result(channels, static_cast<float>(values.front()));
    if (values.size() > 1)
        std::ranges::transform(values, result.begin(),
                               [](double value) { return static_cast<float>(value); });
    return result;
}

std::vector<float> or_all(const std::vector<float>& values, std::size_t channels, float value) {
    return values.empty() ? std::vector<float>(channels, value) : values;
}

std::string describe(const std::vector<float>& values) {
    constexpr std::size_t most_listed = 4;
    const auto [least, most] = std::ranges::minmax(values);
    if (least == most) return fmt::format("{}", least);
    if (values.size() <= most_listed) return fmt::format("{}", fmt::join(values, ", "));
    return fmt::format("{} to {}", least, most);
}

}  // namespace

bool Normalisation::is_none() const {
    return std::ranges::all_of(mean, [](float value) { return value == 0; }) &&
           std::ranges::all_of(std, [](float value) { return value == 1; });
}

Normalisation normalisation_of(const DataConfig& config, const DatasetInfo& data) {
    const auto channels = static_cast<std::size_t>(data.sample_shape[data.sample_shape.rank() - 1]);
    if (!config.normalize) return {or_all(data.mean, channels, 0), or_all(data.std, channels, 1)};
    check_normalize(config, data.sample_shape);
    return {per_channel(config.normalize->mean, channels), per_channel(config.normalize->std, channels)};
}

DataConfig as_trained(DataConfig config, const Normalisation& trained, const DatasetInfo& others) {
    const auto channels = static_cast<std::size_t>(others.sample_shape[others.sample_shape.rank() - 1]);
    if (config.normalize || !others.mean.empty() || !others.other_normalisation.empty() ||
        trained.mean.size() != channels || trained.is_none())
        return config;
    config.normalize =
        Normalize{{trained.mean.begin(), trained.mean.end()}, {trained.std.begin(), trained.std.end()}};
    return config;
}

std::string doubt_about_normalisation(const DataConfig& config, const Normalisation& trained,
                                      const DatasetInfo& others) {
    const Normalisation own = normalisation_of(config, others);
    if (own == trained || own.mean.size() != trained.mean.size()) return {};
    if (config.normalize)
        return fmt::format("data.normalize is {}, but the model was trained with {}; {}", describe(own),
                           trained.is_none() ? "none" : describe(trained),
                           trained.is_none() ? "set it to {mean: [0], std: [1]}" : "set it to that");
    if (others.mean.empty())
        return fmt::format(
            "it is read without mean and std, but the model was trained with {}; set "
            "data.normalize, or pack the files alike",
            describe(trained));
    return fmt::format("its own {} are used, but the model was trained with {}", describe(own),
                       trained.is_none()
                           ? "none; set data.normalize to {mean: [0], std: [1]}, or pack the data "
                             "without --mean and --std"
                           : describe(trained) +
                                 "; set data.normalize to that, or pack the data "
                                 "with the same --mean and --std, or without");
}

std::string doubt_about_raw_images(const DataConfig& config, const DatasetInfo& data) {
    if (config.normalize || !data.mean.empty() || !data.other_normalisation.empty() ||
        data.sample_shape.rank() != 3)
        return {};
    const bool coloured = data.sample_shape[2] == 3;
    return fmt::format(
        "it is read without mean and std, and the weights do not say with which the model was trained; set "
        "data.normalize to these{}, or to {{mean: [0], std: [1]}} for none",
        coloured ? " ({mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]} for torchvision's)" : "");
}

std::string describe(const Normalisation& normalisation) {
    return fmt::format("mean {}, std {}", describe(normalisation.mean), describe(normalisation.std));
}

std::string to_json(const Normalisation& normalisation) {
    const auto is_finite = [](float value) { return std::isfinite(value); };
    if (!std::ranges::all_of(normalisation.mean, is_finite) ||
        !std::ranges::all_of(normalisation.std, is_finite))
        return {};
    // Not through a JSON library's double, whose 17 digits nobody recognises.
    return fmt::format("{{\"mean\": [{}], \"std\": [{}]}}", fmt::join(normalisation.mean, ", "),
                       fmt::join(normalisation.std, ", "));
}

std::optional<Normalisation> normalisation_from(const std::string& json, const std::string& source) {
    if (json.empty()) return {};
    try {
        const auto read = json_or_discarded<nlohmann::json>(json);
        Normalisation result{read.at("mean").get<std::vector<float>>(),
                             read.at("std").get<std::vector<float>>()};
        if (result.mean.size() == result.std.size() && !result.mean.empty()) return result;
    } catch (const nlohmann::json::exception&) {  // said below
    }
    throw DataError(
        source + " does not say how its samples were normalised as checkpoints do: " + json_problem(json),
        "use another checkpoint");
}

}  // namespace tutti
