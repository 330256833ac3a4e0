#include "layer_groups.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tutti {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// "encoder.blocks.3" of "encoder.blocks.3.attn.qkv.weight", or nothing.
std::string_view block_of(std::string_view name) {
    static constexpr std::string_view key = "blocks.";
    for (std::size_t at = name.find(key); at != name.npos; at = name.find(key, at + 1)) {
        if (at != 0 && name[at - 1] != '.') continue;
        const std::size_t number = at + key.size();
        std::size_t end = number;
        while (end < name.size() && is_digit(name[end])) ++end;
        if (end > number && end < name.size() && name[end] == '.') return name.substr(0, end);
    }
    return {};
}

std::string_view module_of(std::string_view name) {
    const std::size_t dot = name.rfind('.');
    return dot == name.npos ? name : name.substr(0, dot);
}

}  // namespace

std::vector<std::size_t> layer_groups(const std::vector<std::string>& names) {
    const bool has_blocks = std::any_of(names.begin(), names.end(),
                                        [](const std::string& name) { return !block_of(name).empty(); });
    std::vector<std::size_t> groups;
    std::string_view current;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string_view key = has_blocks ? block_of(names[i]) : module_of(names[i]);
        groups.push_back(i == 0 ? 0 : groups.back() + (key == current ? 0 : 1));
        current = key;
    }
    return groups;
}

std::vector<double> layer_scales(const std::vector<std::string>& names, double decay) {
    const std::vector<std::size_t> groups = layer_groups(names);
    std::vector<double> scales;
    for (const std::size_t group : groups)
        scales.push_back(std::pow(decay, static_cast<double>(groups.back() - group)));
    return scales;
}

}  // namespace tutti
