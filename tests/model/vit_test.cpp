#include <algorithm>
#include <numeric>
#include <set>

#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::GradientCheck;

constexpr VitOptions small{.patch = 2, .dim = 6, .depth = 1, .heads = 2, .mlp_ratio = 1.5};

std::string message(const VitOptions& options, const Shape& image = {28, 28, 1}) {
    try {
        build_vit(image, options, 10);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST(Vit, HasTheNamesAndShapesOfTimm) {
    const auto device = make_cpu_device(1);
    const Graph graph(build_vit({28, 28, 3}, {.patch = 7, .dim = 32, .depth = 2}, 10), *device, DType::f32,
                      1);
    std::vector<std::string> expected = {"patch_embed.proj.weight [32, 3, 7, 7]",
                                         "patch_embed.proj.bias [32]", "cls_token [1, 1, 32]",
                                         "pos_embed [1, 17, 32]"};
    for (const std::string block : {"blocks.0.", "blocks.1."})
        for (const std::string parameter :
             {"norm1.weight [32]", "norm1.bias [32]", "attn.qkv.weight [96, 32]", "attn.qkv.bias [96]",
              "attn.proj.weight [32, 32]", "attn.proj.bias [32]", "norm2.weight [32]", "norm2.bias [32]",
              "mlp.fc1.weight [128, 32]", "mlp.fc1.bias [128]", "mlp.fc2.weight [32, 128]",
              "mlp.fc2.bias [32]"})
            expected.push_back(block + parameter);
    for (const char* parameter :
         {"norm.weight [32]", "norm.bias [32]", "head.weight [10, 32]", "head.bias [10]"})
        expected.emplace_back(parameter);
    std::vector<std::string> names;
    for (const NamedTensor& tensor : graph.save())
        names.push_back(tensor.name + " " + to_string(tensor.shape));
    EXPECT_EQ(names, expected);
}

TEST(Vit, TheHiddenLayersWidthIsRounded) {
    // 48/11, in as few digits as people write.
    const GraphSpec spec =
        build_vit({4, 4, 1}, {.patch = 2, .dim = 11, .depth = 1, .heads = 1, .mlp_ratio = 4.364}, 3);
    EXPECT_TRUE(std::ranges::any_of(
        spec.nodes(), [](const auto& node) { return node.shape[node.shape.rank() - 1] == 48; }));
}

TEST(Vit, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(build_vit({4, 4, 2}, small, 3), 2).expect_gradients(1e-7);
}

TEST(Vit, WithoutAClassTokenGradientsAgreeWithFiniteDifferences) {
    VitOptions options = small;
    options.class_token = false;
    options.depth = 2;
    GraphSpec graph = build_vit({4, 6, 1}, options, 3);
    for (const auto& node : graph.nodes()) {
        EXPECT_NE(node.name, "cls_token");
        if (node.name.empty()) {
            EXPECT_EQ(node.shape, (Shape{6, 6}));
        }
    }
    GradientCheck(std::move(graph), 2).expect_gradients(1e-7);
}

// The definition: all tokens pass through all of both blocks, then one of them is read.
GraphSpec with_all_tokens(const Shape& image, const VitOptions& o, std::int64_t classes) {
    GraphSpec graph(image);
    NodeId last = graph.input();
    const auto append = [&](const std::string& name, std::unique_ptr<Layer> layer) {
        last = graph.add(name, std::move(layer), {last});
    };
    const auto shape = [&] { return graph.shape(last); };
    Conv2dOptions patch;
    patch.out = o.dim;
    patch.kernel_h = patch.kernel_w = patch.stride_h = patch.stride_w = o.patch;
    append("patch_embed.proj", make_conv2d(shape(), patch));
    append("patch_embed", make_tokens(shape()));
    append("", make_embed_tokens(shape(), true));
    for (std::int64_t block = 0; block < o.depth; ++block) {
        const std::string name = "blocks." + std::to_string(block) + ".";
        const NodeId before = last;
        append(name + "norm1", make_layer_norm(shape(), o.norm_eps));
        append(name + "attn.qkv", make_linear(shape(), 3 * o.dim, true));
        append(name + "attn", make_attention(shape(), o.heads));
        append(name + "attn.proj", make_linear(shape(), o.dim, true));
        const NodeId between = last = graph.add(name + "add1", make_add(shape()), {last, before});
        append(name + "norm2", make_layer_norm(shape(), o.norm_eps));
        append(name + "mlp.fc1", make_linear(shape(), 2 * o.dim, true));
        append(name + "mlp.act", make_gelu(shape()));
        append(name + "mlp.fc2", make_linear(shape(), o.dim, true));
        last = graph.add(name + "add2", make_add(shape()), {last, between});
    }
    append("norm", make_layer_norm(shape(), o.norm_eps));
    append("pool", make_pool_tokens(shape(), TokenPooling::first));
    append("head", make_linear(shape(), classes, true));
    return graph;
}

TEST(Vit, TheLastBlocksClassTokenAloneGivesWhatAllTokensGive) {
    const Shape image{4, 6, 2};
    const VitOptions options{.patch = 2, .dim = 6, .depth = 2, .heads = 2, .mlp_ratio = 2};
    const auto device = make_cpu_device(1);
    Graph alone(build_vit(image, options, 3), *device, DType::f64, 2),
        all(with_all_tokens(image, options, 3), *device, DType::f64, 2);
    alone.initialize(1);
    // Behind unit norms and small weights everything would be near zero.
    test::fill_random(alone.parameter_arena(), 3);
    all.load(alone.save(), "the other graph");
    std::vector<std::vector<double>> results;
    for (Graph* graph : {&alone, &all}) {
        test::fill_random(graph->input(2), 5);
        const auto output = graph->forward(2, {}).span<double>();
        std::vector<double> result(output.begin(), output.end());
        test::fill_random(graph->output_gradient(2), 6);
        graph->backward(2, {}, {});
        for (const NamedTensor& tensor : graph->save_arena(graph->gradient_arena(), "")) {
            const auto* values = reinterpret_cast<const double*>(tensor.bytes.data());
            result.insert(result.end(), values, values + tensor.shape.count());
        }
        results.push_back(result);
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    double largest = 0;
    for (std::size_t i = 0; i < results[0].size(); ++i) {
        EXPECT_NEAR(results[0][i], results[1][i], 1e-12);
        largest = std::max(largest, std::abs(results[1][i]));
    }
    EXPECT_GT(largest, 1e-2);
}

TEST(Vit, WithAClassTokenTheOthersEndWithTheLastAttention) {
    const GraphSpec graph = build_vit({4, 6, 1}, {.patch = 2, .dim = 6, .depth = 2, .heads = 2}, 3);
    for (const auto& node : graph.nodes()) {
        const bool behind = node.name.starts_with("blocks.1.") && !node.name.ends_with("norm1") &&
                            !node.name.ends_with("qkv") && !node.name.ends_with(".attn");
        if (!node.name.starts_with("blocks.")) continue;
        EXPECT_EQ(node.shape.rank(), behind ? 1U : 2U) << node.name;
    }
}

TEST(Vit, Fp32AgreesWithFp64) {
    const auto device = make_cpu_device(1);
    std::vector<std::vector<double>> outputs, gradients;
    const VitOptions options{.patch = 7, .dim = 64, .depth = 2, .heads = 4};
    for (const DType type : {DType::f64, DType::f32}) {
        Graph graph(build_vit({28, 28, 1}, options, 10), *device, type, 3);
        graph.initialize(1);
        test::fill_random(graph.input(3), 5);
        const TensorView output = graph.forward(3, {});
        std::vector<double> out, gradient;
        const auto append = [](const TensorView& view, std::vector<double>& to) {
            for (std::int64_t i = 0; i < view.count(); ++i)
                to.push_back(view.dtype == DType::f64 ? view.as<double>()[i]
                                                      : static_cast<double>(view.as<float>()[i]));
        };
        append(output, out);
        outputs.push_back(out);
        test::fill_random(graph.output_gradient(3), 6);
        graph.backward(3, {}, {});
        for (const NamedTensor& tensor : graph.save_arena(graph.gradient_arena(), "")) {
            auto bytes = tensor.bytes;
            append({bytes.data(), tensor.dtype, tensor.shape}, gradient);
        }
        gradients.push_back(gradient);
    }
    // Pixels, weights and some hundred sums of up to 256 terms are rounded to 24 bits.
    const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
        double difference = 0, norm = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            difference += (a[i] - b[i]) * (a[i] - b[i]);
            norm += a[i] * a[i];
        }
        return std::sqrt(difference / norm);
    };
    EXPECT_LT(distance(outputs[0], outputs[1]), 2e-6);
    EXPECT_LT(distance(gradients[0], gradients[1]), 2e-6);
}

TEST(Vit, AcceptsAnEmptyBatchAndOneSample) {
    const auto device = make_cpu_device(1);
    Graph graph(build_vit({4, 4, 1}, small, 3), *device, DType::f64, 2);
    graph.initialize(1);
    test::fill_random(graph.input(2), 5);
    const auto both = graph.forward(2, {}).span<double>();
    const std::vector<double> first(both.begin(), both.begin() + 3);
    EXPECT_EQ(graph.forward(0, {}).count(), 0);
    graph.backward(0, {}, {});
    for (const double x : graph.gradient_arena().span<double>()) ASSERT_EQ(x, 0);
    test::fill_random(graph.input(2), 5);  // forward may have used the memory again
    const auto alone = graph.forward(1, {}).span<double>();
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(alone[i], first[i], 1e-14);
}

TEST(Vit, BeginsAsTimmDoes) {
    const auto device = make_cpu_device(1);
    Graph graph(build_vit({28, 28, 1}, {.patch = 4, .dim = 128, .depth = 1}, 10), *device, DType::f64, 1);
    graph.initialize(0);
    for (const NamedTensor& tensor : graph.save()) {
        const auto* values = reinterpret_cast<const double*>(tensor.bytes.data());
        const auto count = static_cast<double>(tensor.shape.count());
        const double variance =
            std::inner_product(values, values + tensor.shape.count(), values, 0.0) / count;
        const std::string& name = tensor.name;
        SCOPED_TRACE(name);
        if (name == "cls_token")
            EXPECT_NEAR(variance, 1e-12, 0.5e-12);
        else if (name == "pos_embed" || (name.ends_with(".weight") && tensor.shape.rank() == 2))
            EXPECT_NEAR(variance, 4e-4, 8 * 4e-4 / std::sqrt(count));
        else if (name.starts_with("patch_embed"))
            EXPECT_NEAR(variance, 1 / (3 * 16.0), 0.01);
        else
            EXPECT_EQ(variance, name.ends_with("weight") ? 1 : 0);
    }
}

TEST(Vit, StochasticDepthRisesFromTheFirstBlockToTheLast) {
    VitOptions options = small;
    options.depth = 3;
    options.drop_path = 0.4;
    std::vector<std::string> names;
    GraphSpec graph = build_vit({4, 4, 1}, options, 3);
    for (const auto& node : graph.nodes())
        if (node.layer && node.layer->kind() == "drop_path") names.push_back(node.name);
    EXPECT_EQ(names, (std::vector<std::string>{"blocks.1.drop_path1", "blocks.1.drop_path2",
                                               "blocks.2.drop_path1", "blocks.2.drop_path2"}));
    std::set<std::vector<double>> all;
    for (const std::string& name : names) {
        SCOPED_TRACE(name);
        const std::vector<double> values = test::made_of_ones(graph, name, 2000);
        test::expect_samples_dropped(values, 2000, name.starts_with("blocks.1.") ? 0.2 : 0.4);
        EXPECT_TRUE(all.insert(values).second) << "drops what another one drops";
    }
}

TEST(Vit, RefusesWhatDoesNotFit) {
    EXPECT_NE(message({.depth = 0}).find("model.depth is 0"), std::string::npos);
    EXPECT_EQ(message({.patch = 5}),
              "model.patch is 5, but the images have 28 x 28 pixels; choose a divisor of both");
    EXPECT_EQ(message({.patch = 4, .dim = 130}),
              "model.dim is 130, which 4 heads cannot share evenly; let model.heads divide model.dim");
    EXPECT_NE(message({.dim = 4, .mlp_ratio = 0.1}).find("model.mlp_ratio"), std::string::npos);
}

TEST(Vit, IsBuiltFromTheConfig) {
    ModelConfig config;
    config.name = "vit";
    config.depth = 1;
    config.image = 28;
    EXPECT_EQ(build_model(config, {{28, 28, 1}, 10}).nodes().back().shape, (Shape{10}));
    EXPECT_THROW(build_model(config, {{784}, 10}), UsageError);
    EXPECT_THROW(build_model(config, {{32, 32, 1}, 10}), UsageError);
}

TEST(Sequential, KnowsLayerNormAndGelu) {
    const std::vector<LayerSpec> layers = {{"flatten", {}, "model.layers[0]"},
                                           {"layer_norm", {{"eps", {"1e-6"}}}, "model.layers[1]"},
                                           {"gelu", {}, "model.layers[2]"},
                                           {"linear", {{"out", {"3"}}}, "model.layers[3]"}};
    const GraphSpec graph = build_sequential({2, 3, 4}, layers);
    EXPECT_EQ(graph.nodes()[2].layer->parameters()[0].arena_shape(), (Shape{2, 3, 4}))
        << "channels first in the file";
    EXPECT_EQ(graph.nodes()[4].layer->parameters()[0].view.rank(), 4u);
    const std::vector<LayerSpec> wrong = {{"layer_norm", {{"eps", {"0"}}}, "model.layers[0]"}};
    EXPECT_THROW(build_sequential({4}, wrong), UsageError);
}

/// Of one value through a graph of one layer.
double through(const GraphSpec& graph, double value) {
    const auto device = make_cpu_device(1);
    double result = 0;
    const TensorView x{reinterpret_cast<std::byte*>(&value), DType::f64, {1, 1}};
    const TensorView y{reinterpret_cast<std::byte*>(&result), DType::f64, {1, 1}};
    Layer& layer = *graph.nodes().at(1).layer;
    layer.prepare(device->ops(DType::f64));
    LayerCall call;
    call.inputs = std::span(&x, 1);
    call.output = y;
    layer.forward(call);
    return result;
}

TEST(Sequential, KnowsTheFormsOfGelu) {
    const auto of_form = [](const char* form) {
        const std::vector<LayerSpec> layers = {{"gelu", {{"form", {form}}}, "model.layers[0]"}};
        return through(build_sequential({1}, layers), 1);
    };
    EXPECT_NEAR(of_form("exact"), 0.8413447460685429, 1e-15);
    EXPECT_NEAR(of_form("tanh"), 0.8411919906082768, 1e-15);
    EXPECT_THROW(of_form("none"), UsageError);
}

}  // namespace
}  // namespace tutti
