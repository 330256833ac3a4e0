#include "pretrained_encoder.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "new_weights.hpp"

namespace tutti {
namespace {

constexpr std::string_view encoder = "encoder.", backbone = "backbone.";

bool is_new(std::string_view name) {
    return name.starts_with("fc_norm.") || name.starts_with("head.");
}

bool is_left_out(std::string_view name) {
    constexpr std::array<std::string_view, 3> parts{"encoder.norm.", "encoder_to_decoder.", "decoder."};
    return name == "mask_token" ||
           std::ranges::any_of(parts, [=](std::string_view part) { return name.starts_with(part); });
}

}  // namespace

bool is_masked_autoencoder(std::span<const NamedTensor> tensors) {
    const auto has = [&](std::string_view name) {
        return std::ranges::find(tensors, name, &NamedTensor::name) != tensors.end();
    };
    return has("encoder.patch_embed.proj.weight") && !has("patch_embed.proj.weight") &&
           std::ranges::none_of(tensors, is_new, &NamedTensor::name);
}

std::vector<NamedTensor> classifier_weights(std::vector<NamedTensor> autoencoder,
                                            std::vector<NamedTensor> initial) {
    std::vector<NamedTensor> result;
    for (NamedTensor& tensor : autoencoder) {
        if (is_left_out(tensor.name)) continue;
        if (tensor.name.starts_with(encoder) && !is_new(tensor.name.substr(encoder.size())))
            tensor.name.erase(0, encoder.size());
        result.push_back(std::move(tensor));
    }
    for (NamedTensor& tensor : initial)
        if (is_new(tensor.name)) result.push_back(std::move(tensor));
    return result;
}

bool is_residual_network(std::span<const NamedTensor> tensors) {
    const auto has = [&](std::string_view name) {
        return std::ranges::find(tensors, name, &NamedTensor::name) != tensors.end();
    };
    return has("conv1.weight") && has("layer1.0.conv1.weight") &&
           std::ranges::none_of(tensors, [](const auto& one) { return one.name.starts_with(backbone); });
}

std::vector<std::string> locator_parts(std::vector<std::string> parts, std::span<const NamedTensor> network) {
    std::vector<std::string> result;
    for (std::string& part : parts) {
        const bool is_networks = std::ranges::any_of(
            network, [&](const NamedTensor& one) { return names_tensor(part, one.name); });
        if (is_networks && (part == "fc" || part.starts_with("fc."))) continue;
        if (is_networks) part.insert(0, backbone);
        result.push_back(std::move(part));
    }
    return result;
}

std::vector<NamedTensor> locator_weights(std::vector<NamedTensor> network, std::vector<NamedTensor> initial) {
    std::vector<NamedTensor> result;
    for (NamedTensor& tensor : network) {
        if (tensor.name.starts_with("fc.")) continue;
        tensor.name.insert(0, backbone);
        result.push_back(std::move(tensor));
    }
    for (NamedTensor& tensor : initial)
        if (!tensor.name.starts_with(backbone)) result.push_back(std::move(tensor));
    return result;
}

}  // namespace tutti
