#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

/// The default of a stride that is that of the kernel.
constexpr const char* as_kernel = "kernel";
/// Sums and products of two of them stay in 64 bits.
constexpr std::int64_t largest_integer = std::numeric_limits<std::int32_t>::max();

// Reads the arguments of one entry of model.layers, and the defaults of those that are not given.
class Arguments {
  public:
    Arguments(const LayerSpec& spec, const std::map<std::string, std::string>& defaults)
        : spec_(spec), defaults_(defaults) {}

    std::int64_t integer(const std::string& name) const {
        const auto values = find(name);
        if (values.size() != 1) throw bad(name, "one integer");
        return parse(name, values.front());
    }
    /// One integer for both directions, or [height, width].
    std::pair<std::int64_t, std::int64_t> pair(const std::string& name) const {
        const auto values = find(name);
        if (values.size() == 1 && !spec_.arguments.contains(name) && values.front() == as_kernel)
            return pair(as_kernel);
        if (values.size() == 1) return {parse(name, values.front()), parse(name, values.front())};
        if (values.size() == 2) return {parse(name, values.front()), parse(name, values.back())};
        throw bad(name, "an integer or [height, width]");
    }
    double number(const std::string& name) const {
        const auto values = find(name);
        double value = 0;
        if (values.size() != 1) throw bad(name, "one number");
        const std::string& text = values.front();
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc{} && end == text.data() + text.size();
        if (!whole || !std::isfinite(value)) throw bad(name, "a number");
        return value;
    }
    std::string word(const std::string& name) const {
        const auto values = find(name);
        if (values.size() != 1) throw bad(name, "one word");
        return values.front();
    }
    bool boolean(const std::string& name) const {
        const auto values = find(name);
        if (values.size() == 1 && values.front() == "true") return true;
        if (values.size() == 1 && values.front() == "false") return false;
        throw bad(name, "true or false");
    }

  private:
    /// As given, or the default; required arguments are given (check_arguments).
    std::vector<std::string> find(const std::string& name) const {
        const auto found = spec_.arguments.find(name);
        return found == spec_.arguments.end() ? std::vector{defaults_.at(name)} : found->second;
    }
    std::int64_t parse(const std::string& name, const std::string& text) const {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool too_large = error == std::errc::result_out_of_range;
        if ((error != std::errc{} && !too_large) || end != text.data() + text.size())
            throw bad(name, "an integer");
        if (too_large || value > largest_integer || value < -largest_integer)
            throw bad(name, "an integer of 32 bits");
        return value;
    }
    UsageError bad(const std::string& name, const std::string& wanted) const {
        std::string given;
        for (const std::string& value : spec_.arguments.at(name))
            given += (given.empty() ? "" : ", ") + value;
        return UsageError(spec_.where + ": " + spec_.kind + "." + name + " is " + given, "give " + wanted);
    }
    const LayerSpec& spec_;
    const std::map<std::string, std::string>& defaults_;
};

// kernel, stride (PyTorch's default: the kernel) and padding.
Pool2dOptions pool_options(const Arguments& a) {
    Pool2dOptions o;
    std::tie(o.kernel_h, o.kernel_w) = a.pair("kernel");
    std::tie(o.stride_h, o.stride_w) = a.pair("stride");
    std::tie(o.padding_h, o.padding_w) = a.pair("padding");
    return o;
}

struct Kind {
    LayerKind description;
    std::map<std::string, std::string> defaults;  // of the optional arguments
    // flattened_from: the image behind a flatten layer, or rank 0.
    std::function<std::unique_ptr<Layer>(const Shape& input, const Shape& flattened_from, const Arguments&)>
        make;
};

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> table = {
        {{"linear", {"out"}, {"bias"}},
         {{"bias", "true"}},
         [](const Shape& input, const Shape& image, const Arguments& a) {
             return make_linear(input, a.integer("out"), a.boolean("bias"), image);
         }},
        {{"conv2d", {"out", "kernel"}, {"stride", "padding", "groups", "bias"}},
         {{"stride", "1"}, {"padding", "0"}, {"groups", "1"}, {"bias", "true"}},
         [](const Shape& input, const Shape&, const Arguments& a) {
             Conv2dOptions o;
             o.out = a.integer("out");
             std::tie(o.kernel_h, o.kernel_w) = a.pair("kernel");
             std::tie(o.stride_h, o.stride_w) = a.pair("stride");
             std::tie(o.padding_h, o.padding_w) = a.pair("padding");
             o.groups = a.integer("groups");
             o.bias = a.boolean("bias");
             return make_conv2d(input, o);
         }},
        {{"relu", {}, {}},
         {},
         [](const Shape& input, const Shape&, const Arguments&) { return make_relu(input); }},
        {{"max_pool2d", {"kernel"}, {"stride", "padding"}},
         {{"stride", as_kernel}, {"padding", "0"}},
         [](const Shape& input, const Shape&, const Arguments& a) {
             return make_max_pool2d(input, pool_options(a));
         }},
        {{"avg_pool2d", {"kernel"}, {"stride", "padding", "count_include_pad"}},
         {{"stride", as_kernel}, {"padding", "0"}, {"count_include_pad", "true"}},
         [](const Shape& input, const Shape&, const Arguments& a) {
             return make_avg_pool2d(input, pool_options(a), a.boolean("count_include_pad"));
         }},
        {{"adaptive_avg_pool2d", {"out"}, {}},
         {},
         [](const Shape& input, const Shape&, const Arguments& a) {
             const auto [out_h, out_w] = a.pair("out");
             return make_adaptive_avg_pool2d(input, out_h, out_w);
         }},
        {{"conv_transpose2d", {"out", "kernel"}, {"stride", "padding", "output_padding", "bias"}},
         {{"stride", "1"}, {"padding", "0"}, {"output_padding", "0"}, {"bias", "true"}},
         [](const Shape& input, const Shape&, const Arguments& a) {
             ConvTranspose2dOptions o;
             o.out = a.integer("out");
             std::tie(o.kernel_h, o.kernel_w) = a.pair("kernel");
             std::tie(o.stride_h, o.stride_w) = a.pair("stride");
             std::tie(o.padding_h, o.padding_w) = a.pair("padding");
             std::tie(o.output_padding_h, o.output_padding_w) = a.pair("output_padding");
             o.bias = a.boolean("bias");
             return make_conv_transpose2d(input, o);
         }},
        {{"batch_norm2d", {}, {"eps", "momentum"}},
         {{"eps", "1e-5"}, {"momentum", "0.1"}},
         [](const Shape& input, const Shape& image, const Arguments& a) {
             return make_batch_norm2d(input, {a.number("eps"), a.number("momentum")}, image);
         }},
        {{"dropout", {}, {"p"}},
         {{"p", "0.5"}},
         [](const Shape& input, const Shape&, const Arguments& a) {
             return make_dropout(input, a.number("p"));
         }},
        {{"layer_norm", {}, {"eps"}},
         {{"eps", "1e-5"}},
         [](const Shape& input, const Shape& image, const Arguments& a) {
             return make_layer_norm(input, a.number("eps"), image);
         }},
        {{"gelu", {}, {"form"}},
         {{"form", "exact"}},
         [](const Shape& input, const Shape&, const Arguments& a) {
             return make_gelu(input, gelu_form(a.word("form"), "gelu.form"));
         }},
        {{"flatten", {}, {}},
         {},
         [](const Shape& input, const Shape&, const Arguments&) { return make_flatten(input); }},
    };
    return table;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

const Kind& find_kind(const LayerSpec& spec) {
    std::vector<std::string> names;
    for (const Kind& kind : kinds()) {
        if (kind.description.kind == spec.kind) return kind;
        names.push_back(kind.description.kind);
    }
    const std::string near = nearest(spec.kind, names);
    throw UsageError(spec.where + ": no layer is called " + spec.kind,
                     near.empty() ? "there are " + joined(names) : "did you mean " + near + "?");
}

void check_arguments(const LayerSpec& spec, const LayerKind& kind) {
    std::vector<std::string> known = kind.required;
    known.insert(known.end(), kind.optional.begin(), kind.optional.end());
    for (const auto& [name, values] : spec.arguments) {
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        const std::string near = nearest(name, known);
        throw UsageError(spec.where + ": " + spec.kind + " has no argument " + name,
                         !near.empty()   ? "did you mean " + near + "?"
                         : known.empty() ? "it takes none"
                                         : "it takes " + joined(known));
    }
    for (const std::string& name : kind.required)
        if (!spec.arguments.contains(name))
            throw UsageError(spec.where + ": " + spec.kind + " needs " + name,
                             "write for example {" + spec.kind + ": {" + name + ": 3}}");
}

/// Whether two texts mean one value: "1e-5" and "0.00001" do.
bool same_value(const std::string& one, const std::string& other) {
    const auto number = [](const std::string& text) -> std::optional<double> {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size()) return {};
        return value;
    };
    const auto left = number(one), right = number(other);
    return left && right ? *left == *right : one == other;
}

/// [n, n] as n.
std::vector<std::string> shortened(std::vector<std::string> values) {
    if (values.size() == 2 && same_value(values[0], values[1])) values.pop_back();
    return values;
}

}  // namespace

std::vector<LayerSpec> without_defaults(std::span<const LayerSpec> layers) {
    std::vector<LayerSpec> result;
    for (const LayerSpec& spec : layers) {
        LayerSpec& plain = result.emplace_back(LayerSpec{spec.kind, {}, spec.where});
        const auto kind = std::ranges::find(
            kinds(), spec.kind, [](const Kind& one) -> const std::string& { return one.description.kind; });
        for (const auto& [name, values] : spec.arguments) {
            std::vector<std::string> value = shortened(values);
            const auto usual = kind == kinds().end() ? std::map<std::string, std::string>::const_iterator{}
                                                     : kind->defaults.find(name);
            if (kind != kinds().end() && usual != kind->defaults.end()) {
                std::vector<std::string> fallback{usual->second};
                if (usual->second == as_kernel && spec.arguments.contains(as_kernel))
                    fallback = shortened(spec.arguments.at(as_kernel));
                if (std::ranges::equal(value, fallback, same_value)) continue;
            }
            plain.arguments[name] = std::move(value);
        }
    }
    return result;
}

std::vector<LayerKind> layer_kinds() {
    std::vector<LayerKind> result;
    for (const Kind& kind : kinds()) result.push_back(kind.description);
    return result;
}

GraphSpec build_sequential(const Shape& input, std::span<const LayerSpec> layers) {
    GraphSpec graph(input);
    NodeId last = graph.input();
    Shape image;
    std::size_t number = 0;
    for (const LayerSpec& spec : layers) {
        const Kind& kind = find_kind(spec);
        check_arguments(spec, kind.description);
        const Shape before = graph.shape(last);
        std::unique_ptr<Layer> layer;
        try {
            layer = kind.make(before, image, Arguments(spec, kind.defaults));
        } catch (const UsageError& error) {
            const std::string text = error.what();
            throw text.starts_with(spec.where) ? error : UsageError(spec.where + ": " + text);
        }
        // Flattened again, values stay where they are; a linear layer makes others, also of as many.
        if (spec.kind == "flatten") {
            if (before.rank() == 3) image = before;
        } else if (spec.kind == "linear" || !(layer->output_shape() == before)) {
            image = {};
        }
        last = graph.add(std::to_string(number++), std::move(layer), {last});
    }
    return graph;
}

}  // namespace tutti
