#include "new_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti {
namespace {

bool begins_anew(const NamedTensor& tensor, std::span<const std::string> parts) {
    return std::ranges::any_of(parts,
                               [&](const std::string& part) { return names_tensor(part, tensor.name); });
}

void check_part(const std::string& part, std::span<const NamedTensor> read,
                std::span<const NamedTensor> initial) {
    const auto named = [&](const NamedTensor& tensor) { return names_tensor(part, tensor.name); };
    if (std::ranges::any_of(read, named) || std::ranges::any_of(initial, named)) return;
    std::vector<std::string> names;
    for (const NamedTensor& tensor : initial) names.push_back(tensor.name);
    const std::string near = nearest_part(part, names);
    throw UsageError(
        "model.init_except: " + part + " names no weights, of the model or of model.init_from",
        near.empty() ? "trainer inspect -c FILE lists the model's layers" : "did you mean " + near + "?");
}

template <class T>
std::int64_t count_non_finite(const NamedTensor& tensor) {
    std::int64_t count = 0;
    for (std::size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
        T value;
        std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
        count += !std::isfinite(value);
    }
    return count;
}

}  // namespace

std::vector<NamedTensor> with_new_weights(std::vector<NamedTensor> read, std::vector<NamedTensor> initial,
                                          std::span<const std::string> parts) {
    for (const std::string& part : parts) check_part(part, read, initial);
    const auto chosen = [&](const NamedTensor& tensor) { return begins_anew(tensor, parts); };
    std::erase_if(read, chosen);
    std::ranges::copy_if(std::make_move_iterator(initial.begin()), std::make_move_iterator(initial.end()),
                         std::back_inserter(read), chosen);
    return read;
}

std::vector<std::string> parts_that_do_not_fit(std::span<const NamedTensor> read,
                                               std::span<const NamedTensor> own) {
    std::vector<std::string> parts;
    const auto note = [&](const NamedTensor& tensor) {
        const std::string part = tensor.name.substr(0, tensor.name.rfind('.'));
        if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
    };
    for (const NamedTensor& tensor : own)
        if (std::ranges::none_of(read, [&](const NamedTensor& one) {
                return one.name == tensor.name && one.shape == tensor.shape;
            }))
            note(tensor);
    for (const NamedTensor& tensor : read)
        if (std::ranges::find(own, tensor.name, &NamedTensor::name) == own.end()) note(tensor);
    return parts;
}

std::string doubt_about_frozen(std::span<const std::string> parts, std::span<const Parameter> frozen,
                               const ModelConfig& model) {
    std::vector<std::string> both;
    for (const std::string& part : parts)
        if (std::ranges::find(both, part) == both.end() &&
            std::ranges::any_of(frozen, [&](const Parameter& one) { return names_tensor(part, one.name); }))
            both.push_back(part);
    if (both.empty()) return {};
    return fmt::format(
        "what begins anew and is frozen keeps the random values that it begins with, here {}; {}",
        fmt::join(both, ", "),
        model.freeze.empty() ? "name it in model.freeze_except" : "leave it out of model.freeze");
}

void require_finite(std::span<const NamedTensor> tensors, const std::string& file) {
    for (const NamedTensor& tensor : tensors) {
        const std::int64_t count = tensor.dtype == DType::f32   ? count_non_finite<float>(tensor)
                                   : tensor.dtype == DType::f64 ? count_non_finite<double>(tensor)
                                                                : 0;
        if (count > 0)
            throw DataError(fmt::format("{}: {} has {} of {} values that are not finite", file, tensor.name,
                                        count, tensor.shape.count()),
                            "give weights of a training that did not diverge");
    }
}

}  // namespace tutti
