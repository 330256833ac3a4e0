#pragma once
// The models of cuda_step_test.cpp: small, and of all kinds of layers and of what fuses them.

#include <map>
#include <string>
#include <vector>

#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti::test {

constexpr std::int64_t model_classes = 4;

inline GraphSpec convolutions() {
    const auto layer = [](const std::string& kind,
                          std::map<std::string, std::vector<std::string>> arguments) {
        return LayerSpec{kind, std::move(arguments), kind};
    };
    const std::vector<LayerSpec> layers{
        layer("conv2d", {{"out", {"8"}}, {"kernel", {"3"}}, {"padding", {"1"}}}),
        layer("batch_norm2d", {}),
        layer("relu", {}),
        layer("max_pool2d", {{"kernel", {"2"}}}),
        layer("conv2d", {{"out", {"4"}}, {"kernel", {"3"}}}),
        layer("dropout", {{"p", {"0.3"}}}),
        layer("flatten", {}),
        layer("linear", {{"out", {"4"}}}),
    };
    return build_sequential({8, 8, 3}, layers);
}
/// Residuals of both kinds: a block's input, and one that a convolution brings to size.
inline GraphSpec residuals() {
    GraphSpec graph({6, 6, 3});
    NodeId last = 0;
    const auto convolution = [&](const std::string& name, NodeId input, std::int64_t stride) {
        Conv2dOptions o;
        o.out = 8;
        o.kernel_h = o.kernel_w = 3;
        o.stride_h = o.stride_w = stride;
        o.padding_h = o.padding_w = 1;
        const NodeId conv = graph.add(name, make_conv2d(graph.shape(input), o), {input});
        return graph.add(name + "_norm", make_batch_norm2d(graph.shape(conv), {}), {conv});
    };
    const auto sum = [&](const std::string& name, NodeId a, NodeId b) {
        const NodeId add = graph.add(name + "_add", make_add(graph.shape(a)), {a, b});
        return graph.add(name + "_relu", make_relu(graph.shape(a)), {add});
    };
    last = convolution("stem", last, 1);
    last = sum("first", convolution("first", last, 1), last);
    const NodeId inner = convolution("second", last, 2);
    last = sum("second", inner, convolution("shortcut", last, 2));
    graph.add("fc", make_linear(graph.shape(last), model_classes, true), {last});
    return graph;
}
inline GraphSpec transformer() {
    return build_vit({8, 8, 1}, {.patch = 4, .dim = 16, .depth = 2, .heads = 2, .drop_path = 0.2},
                     model_classes);
}
/// Heads of 32.
inline GraphSpec transformer_with_wide_heads() {
    return build_vit({8, 8, 1}, {.patch = 4, .dim = 64, .depth = 2, .heads = 2, .drop_path = 0.2},
                     model_classes);
}
inline GraphSpec transformer_without_drop_path() {
    return build_vit({8, 8, 1}, {.patch = 4, .dim = 16, .depth = 2, .heads = 2}, model_classes);
}
inline GraphSpec transformer_with_gelu_by_tanh() {
    return build_vit({8, 8, 1}, {.patch = 4, .dim = 16, .depth = 2, .heads = 2, .gelu = GeluForm::tanh},
                     model_classes);
}
/// Layers that are tied to the output, whose type is f32 where others are bf16. Sizes at which the planned
/// memory has the input right behind what is kept of the GELU.
inline GraphSpec gelu_last() {
    GraphSpec graph({4});
    const NodeId fc = graph.add("fc", make_linear({4}, 16, true), {0});
    graph.add("gelu", make_gelu({16}), {fc});
    return graph;
}
inline GraphSpec sum_last() {
    GraphSpec graph({8, 8, 3});
    const NodeId flat = graph.add("flat", make_flatten(graph.shape(0)), {0});
    const NodeId first = graph.add("first", make_linear(graph.shape(flat), model_classes, true), {flat});
    const NodeId gelu = graph.add("gelu", make_gelu(graph.shape(first)), {first});
    const NodeId second = graph.add("second", make_linear(graph.shape(gelu), model_classes, true), {gelu});
    graph.add("sum", make_add(graph.shape(second)), {second, gelu});
    return graph;
}
inline GraphSpec lenet() {
    return build_lenet({8, 8, 1}, model_classes);
}

}  // namespace tutti::test
