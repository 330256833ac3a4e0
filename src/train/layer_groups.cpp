#include "layer_groups.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tutti {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Behind the digits that stand at `from`, where a dot follows them; else npos.
std::size_t end_of_number(std::string_view name, std::size_t from) {
    std::size_t end = from;
    while (end < name.size() && is_digit(name[end])) ++end;
    return end > from && end < name.size() && name[end] == '.' ? end : name.npos;
}

/// "encoder.blocks.3" of "encoder.blocks.3.attn.qkv.weight", "encoder.layers.3" of another transformer's,
/// "layer2.1" of a residual network's; or nothing.
std::string_view block_of(std::string_view name) {
    for (std::size_t at = 0; at < name.size();) {
        for (const std::string_view key : {"blocks.", "layers."})
            if (name.substr(at).starts_with(key))
                if (const std::size_t end = end_of_number(name, at + key.size()); end != name.npos)
                    return name.substr(0, end);
        constexpr std::string_view stage = "layer";
        if (name.substr(at).starts_with(stage))
            if (const std::size_t dot = end_of_number(name, at + stage.size()); dot != name.npos)
                if (const std::size_t end = end_of_number(name, dot + 1); end != name.npos)
                    return name.substr(0, end);
        const std::size_t dot = name.find('.', at);
        at = dot == name.npos ? name.size() : dot + 1;
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
