#include "new_weights.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti {
namespace {

bool begins_anew(const NamedTensor& tensor, std::span<const std::string> parts) {
    return std::ranges::any_of(parts,
                               [&](const std::string& part) { return names_tensor(part, tensor.name); });
}

/// What a part could name in the model: "layer1", "layer1.0", …, "layer1.0.conv1.weight".
std::vector<std::string> parts_of(std::span<const NamedTensor> tensors) {
    std::set<std::string> parts;
    for (const NamedTensor& tensor : tensors) {
        parts.insert(tensor.name);
        for (auto dot = tensor.name.find('.'); dot != std::string::npos; dot = tensor.name.find('.', dot + 1))
            parts.insert(tensor.name.substr(0, dot));
    }
    return {parts.begin(), parts.end()};
}

void check_part(const std::string& part, std::span<const NamedTensor> read,
                std::span<const NamedTensor> initial) {
    const auto named = [&](const NamedTensor& tensor) { return names_tensor(part, tensor.name); };
    if (std::ranges::any_of(read, named) || std::ranges::any_of(initial, named)) return;
    const std::string near = nearest(part, parts_of(initial));
    throw UsageError(
        "model.init_except: " + part + " names no weights, of the model or of model.init_from",
        near.empty() ? "trainer inspect -c FILE lists the model's layers" : "did you mean " + near + "?");
}

}  // namespace

bool names_tensor(const std::string& part, const std::string& tensor) {
    return tensor.starts_with(part) && (tensor.size() == part.size() || tensor[part.size()] == '.');
}

std::vector<NamedTensor> with_new_weights(std::vector<NamedTensor> read, std::vector<NamedTensor> initial,
                                          std::span<const std::string> parts) {
    for (const std::string& part : parts) check_part(part, read, initial);
    const auto chosen = [&](const NamedTensor& tensor) { return begins_anew(tensor, parts); };
    std::erase_if(read, chosen);
    std::ranges::copy_if(std::make_move_iterator(initial.begin()), std::make_move_iterator(initial.end()),
                         std::back_inserter(read), chosen);
    return read;
}

}  // namespace tutti
