// Initial values, and the way of parameters to and from files.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "graph_impl.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/random.hpp"
#include "tutti/base/units.hpp"

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
                        type == DType::i64 ? "it must be i64" : "weights must be f32 or f64");
    return result;
}

void append(std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
}

// What a file should hold.
struct Wanted {
    std::string name;
    Shape shape;
    bool may_be_absent = false;
};

std::vector<Wanted> wanted(const std::vector<Parameter>& parameters) {
    std::vector<Wanted> result;
    for (const Parameter& parameter : parameters)
        result.push_back({parameter.name, parameter.spec.file_shape});
    return result;
}

/// Puts tensors into a message: the first ones and the number of the others. Of another network all would
/// fill the screen, and the words behind them would be lost.
void list(std::string& problem, const std::string& title, std::span<const std::string> tensors) {
    constexpr std::size_t most = 4;
    if (tensors.empty()) return;
    append(problem,
           fmt::format("{}: {}", title, fmt::join(tensors.first(std::min(tensors.size(), most)), ", ")));
    if (tensors.size() > most) problem += " and " + counted(tensors.size() - most, "other");
}

// The tensor of everything wanted (null where it is absent and may be), or a DataError that lists what does
// not fit. Names are searched with `prefix`; tensors under other prefixes belong to somebody else.
std::vector<const NamedTensor*> match(const std::vector<Wanted>& wanted, std::span<const NamedTensor> tensors,
                                      const std::string& prefix, const std::string& source) {
    std::map<std::string, const NamedTensor*> by_name;
    for (const NamedTensor& tensor : tensors)
        if (tensor.name.starts_with(prefix)) by_name[tensor.name.substr(prefix.size())] = &tensor;

    std::vector<std::string> missing, shapes, extra;
    std::vector<const NamedTensor*> result;
    for (const Wanted& one : wanted) {
        const auto found = by_name.find(one.name);
        if (found == by_name.end()) {
            if (!one.may_be_absent) missing.push_back(one.name);
            result.push_back(nullptr);
            continue;
        }
        if (!(found->second->shape == one.shape))
            shapes.push_back(one.name + " " + to_string(found->second->shape) + " instead of " +
                             to_string(one.shape));
        result.push_back(found->second);
        by_name.erase(found);
    }
    for (const auto& [name, tensor] : by_name) extra.push_back(name);
    std::string problem;
    // The arena's order is that of backward; the first layer tells most about another network.
    std::ranges::reverse(missing);
    std::ranges::reverse(shapes);
    list(problem, "missing", missing);
    list(problem, "not in the model", extra);
    list(problem, "of another shape", shapes);
    if (!problem.empty())
        throw DataError(source + " does not fit the model (" + problem + ")",
                        "use weights that were saved from this model, under PyTorch's names");
    return result;
}

/// A tensor of a file, of `type`, in the order of memory.
std::vector<std::byte> as_in_memory(const ParameterSpec& spec, const NamedTensor& tensor, DType type) {
    const std::vector<std::byte> file = converted(tensor, type);
    std::vector<std::byte> memory(file.size());
    reorder_to_arena(spec, size_of(type), file.data(), memory.data());
    return memory;
}

/// A tensor of a file from one in the device's memory.
NamedTensor as_in_file(const std::string& name, const ParameterSpec& spec, const TensorView& view,
                       Device& device) {
    NamedTensor tensor{name, view.dtype, spec.file_shape, {}};
    std::vector<std::byte> memory(view.bytes());
    device.copy_to_host(memory.data(), view);
    tensor.bytes.resize(view.bytes());
    reorder_to_file(spec, size_of(view.dtype), memory.data(), tensor.bytes.data());
    return tensor;
}

/// The order of a buffer in files and in memory, as that of a parameter.
ParameterSpec order_of(const BufferSpec& buffer) {
    return {buffer.name,
            buffer.shape,
            buffer.view.rank() > 0 ? buffer.view : buffer.shape,
            buffer.permutation,
            {}};
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
    impl_->use_all_parameters();
    impl_->set_buffers_to_initial_values();
    const auto begin = [&](const Parameter& parameter) {
        const Initializer& initial = parameter.spec.initial;
        const RandomStream random(seed, RandomPlace::initial_weights, parameter.number, 0);
        NamedTensor tensor{parameter.name, DType::f64, parameter.spec.file_shape, {}};
        tensor.bytes.resize(static_cast<std::size_t>(parameter.count) * sizeof(double));
        auto* values = reinterpret_cast<double*>(tensor.bytes.data());
        for (std::int64_t i = 0; i < parameter.count; ++i)
            values[i] = initial_value(initial, random, i, parameter.count);
        impl_->set_parameter(all_parameters(), parameter, tensor);
    };
    std::ranges::for_each(impl_->parameters, begin);
    std::ranges::for_each(impl_->frozen, begin);
    all_parameters_changed();
}

std::vector<NamedTensor> Graph::save_arena(const TensorView& arena, const std::string& prefix) const {
    impl_->use_all_parameters();
    std::vector<NamedTensor> result;
    for (auto parameter = impl_->parameters.rbegin(); parameter != impl_->parameters.rend(); ++parameter)
        result.push_back(as_in_file(prefix + parameter->name, parameter->spec,
                                    impl_->parameter_view(arena, *parameter), *impl_->device));
    return result;
}

void Graph::load_arena(const TensorView& arena, std::span<const NamedTensor> tensors,
                       const std::string& prefix, const std::string& source) {
    impl_->use_all_parameters();
    const auto matched = match(wanted(impl_->parameters), tensors, prefix, source);
    for (std::size_t i = 0; i < matched.size(); ++i)
        impl_->set_parameter(arena, impl_->parameters[i], *matched[i]);
}

void Graph::Impl::set_parameter(const TensorView& arena, const Parameter& parameter,
                                const NamedTensor& tensor) {
    device->copy_from_host(parameter_view(arena, parameter),
                           as_in_memory(parameter.spec, tensor, arena.dtype).data());
}

std::vector<NamedTensor> Graph::save() const {
    impl_->use_all_parameters();
    std::vector<NamedTensor> result;
    for (std::size_t i = 1; i < impl_->calls.size(); ++i) {
        const GraphSpec::Node& node = impl_->spec.nodes()[i];
        for (std::size_t k = 0; k < node.layer->parameters().size(); ++k) {
            const ParameterSpec& one = node.layer->parameters()[k];
            result.push_back(as_in_file(GraphSpec::full_name(node, one), one, impl_->calls[i].parameters[k],
                                        *impl_->device));
        }
        for (std::size_t k = 0; k < node.layer->buffers().size(); ++k) {
            const BufferSpec& one = node.layer->buffers()[k];
            if (one.saved)
                result.push_back(as_in_file(node.name + "." + one.name, order_of(one),
                                            impl_->calls[i].buffers[k], *impl_->device));
        }
    }
    return result;
}

void Graph::load(std::span<const NamedTensor> tensors, const std::string& source) {
    std::vector<Parameter> parameters = impl_->parameters;
    parameters.insert(parameters.end(), impl_->frozen.begin(), impl_->frozen.end());
    std::vector<Wanted> all = wanted(parameters);
    struct Saved {
        TensorView view;
        ParameterSpec order;
    };
    std::vector<Saved> buffers;
    for (std::size_t i = 1; i < impl_->calls.size(); ++i) {
        const GraphSpec::Node& node = impl_->spec.nodes()[i];
        for (std::size_t k = 0; k < node.layer->buffers().size(); ++k) {
            const BufferSpec& one = node.layer->buffers()[k];
            if (!one.saved) continue;
            all.push_back({node.name + "." + one.name, one.shape, one.may_be_absent});
            buffers.push_back({impl_->calls[i].buffers[k], order_of(one)});
        }
    }
    const auto matched = match(all, tensors, "", source);
    impl_->use_all_parameters();
    impl_->set_buffers_to_initial_values();
    for (std::size_t i = 0; i < parameters.size(); ++i)
        impl_->set_parameter(all_parameters(), parameters[i], *matched[i]);
    all_parameters_changed();
    for (std::size_t i = 0; i < buffers.size(); ++i)
        if (const NamedTensor* tensor = matched[parameters.size() + i]) {
            const auto& [view, order] = buffers[i];
            impl_->device->copy_from_host(view, as_in_memory(order, *tensor, view.dtype).data());
        }
}

}  // namespace tutti
