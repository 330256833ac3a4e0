// Initial values, and the way of parameters to and from files.

#include <algorithm>
#include <cmath>
#include <map>

#include "graph_impl.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/random.hpp"

namespace tutti {
namespace {

template <class To, class From>
void convert(const std::byte* from, std::byte* to, std::int64_t count) {
    const auto* source = reinterpret_cast<const From*>(from);
    auto* target = reinterpret_cast<To*>(to);
    for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<To>(source[i]);
}

std::vector<std::byte> converted(const NamedTensor& tensor, DType type) {
    const std::int64_t count = tensor.shape.count();
    std::vector<std::byte> result(static_cast<std::size_t>(count) * size_of(type));
    if (tensor.dtype == type)
        result = tensor.bytes;
    else if (tensor.dtype == DType::f32 && type == DType::f64)
        convert<double, float>(tensor.bytes.data(), result.data(), count);
    else if (tensor.dtype == DType::f64 && type == DType::f32)
        convert<float, double>(tensor.bytes.data(), result.data(), count);
    else
        throw DataError("tensor " + tensor.name + " has type " + std::string(name_of(tensor.dtype)),
                        "weights must be f32 or f64");
    return result;
}

void append(std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
}

// The tensor of every parameter, or a DataError that lists all that does not fit. Names are searched with
// `prefix`; when `only_prefix`, tensors under other prefixes belong to somebody else.
std::vector<const NamedTensor*> match(const std::vector<Parameter>& parameters,
                                      std::span<const NamedTensor> tensors, const std::string& prefix,
                                      const std::string& source) {
    std::map<std::string, const NamedTensor*> by_name;
    for (const NamedTensor& tensor : tensors)
        if (tensor.name.starts_with(prefix)) by_name[tensor.name.substr(prefix.size())] = &tensor;

    std::string missing, shapes, extra;
    std::vector<const NamedTensor*> result;
    for (const Parameter& parameter : parameters) {
        const auto found = by_name.find(parameter.name);
        if (found == by_name.end()) {
            append(missing, parameter.name);
            result.push_back(nullptr);
            continue;
        }
        if (!(found->second->shape == parameter.spec.file_shape))
            append(shapes, parameter.name + " " + to_string(found->second->shape) + " instead of " +
                               to_string(parameter.spec.file_shape));
        result.push_back(found->second);
        by_name.erase(found);
    }
    for (const auto& [name, tensor] : by_name) append(extra, name);
    std::string problem;
    if (!missing.empty()) append(problem, "missing: " + missing);
    if (!extra.empty()) append(problem, "not in the model: " + extra);
    if (!shapes.empty()) append(problem, "of another shape: " + shapes);
    if (!problem.empty())
        throw DataError(source + " does not fit the model (" + problem + ")",
                        "use weights that were saved from this model, under PyTorch's names");
    return result;
}

double initial_value(const Initializer& initial, const RandomStream& random, std::int64_t element,
                     std::int64_t count) {
    auto index = static_cast<std::uint64_t>(element);
    switch (initial.kind) {
        case Initializer::Kind::uniform:
            return initial.value * (2.0 * random.uniform(index) - 1.0);
        case Initializer::Kind::normal:
            return initial.value * random.normal(index);
        case Initializer::Kind::truncated_normal:
            // A number outside is drawn again, at addresses that no element has.
            while (true) {
                const double value = initial.value * random.normal(index);
                if (std::abs(value) <= initial.cut) return value;
                index += static_cast<std::uint64_t>(count);
            }
        case Initializer::Kind::constant:
            break;
    }
    return initial.value;
}

}  // namespace

void Graph::initialize(std::int64_t seed) {
    for (const Parameter& parameter : impl_->parameters) {
        const Initializer& initial = parameter.spec.initial;
        const RandomStream random(seed, RandomPlace::initial_weights, parameter.number, 0);
        NamedTensor tensor{parameter.name, DType::f64, parameter.spec.file_shape, {}};
        tensor.bytes.resize(static_cast<std::size_t>(parameter.count) * sizeof(double));
        auto* values = reinterpret_cast<double*>(tensor.bytes.data());
        for (std::int64_t i = 0; i < parameter.count; ++i)
            values[i] = initial_value(initial, random, i, parameter.count);
        const std::vector<std::byte> file = converted(tensor, impl_->compute);
        std::vector<std::byte> arena(file.size());
        reorder_to_arena(parameter.spec, size_of(impl_->compute), file.data(), arena.data());
        impl_->device->copy_from_host(impl_->parameter_view(parameter_arena(), parameter), arena.data());
    }
}

std::vector<NamedTensor> Graph::save_arena(const TensorView& arena, const std::string& prefix) const {
    std::vector<NamedTensor> result;
    for (auto parameter = impl_->parameters.rbegin(); parameter != impl_->parameters.rend(); ++parameter) {
        NamedTensor tensor{prefix + parameter->name, arena.dtype, parameter->spec.file_shape, {}};
        const TensorView view = impl_->parameter_view(arena, *parameter);
        std::vector<std::byte> host(view.bytes());
        impl_->device->copy_to_host(host.data(), view);
        tensor.bytes.resize(view.bytes());
        reorder_to_file(parameter->spec, size_of(arena.dtype), host.data(), tensor.bytes.data());
        result.push_back(std::move(tensor));
    }
    return result;
}

void Graph::load_arena(const TensorView& arena, std::span<const NamedTensor> tensors,
                       const std::string& prefix, const std::string& source) {
    const auto matched = match(impl_->parameters, tensors, prefix, source);
    for (std::size_t i = 0; i < matched.size(); ++i) {
        const Parameter& parameter = impl_->parameters[i];
        const std::vector<std::byte> file = converted(*matched[i], arena.dtype);
        std::vector<std::byte> host(file.size());
        reorder_to_arena(parameter.spec, size_of(arena.dtype), file.data(), host.data());
        impl_->device->copy_from_host(impl_->parameter_view(arena, parameter), host.data());
    }
}

std::vector<NamedTensor> Graph::save() const {
    return save_arena(parameter_arena(), "");
}

void Graph::load(std::span<const NamedTensor> tensors, const std::string& source) {
    load_arena(parameter_arena(), tensors, "", source);
}

}  // namespace tutti
