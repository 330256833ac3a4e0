#include "tutti/model/zoo.hpp"

#include <algorithm>

#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

std::vector<std::string> parameter_names(const GraphSpec& graph) {
    std::vector<std::string> names;
    for (const auto& node : graph.nodes())
        if (node.layer)
            for (const ParameterSpec& parameter : node.layer->parameters())
                names.push_back(node.name + "." + parameter.name);
    return names;
}

std::string message(const std::function<void()>& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "nothing was thrown";
}

LayerSpec layer(const std::string& kind, std::map<std::string, std::vector<std::string>> arguments = {}) {
    return {kind, std::move(arguments), "model.layers[0]"};
}

TEST(Zoo, MlpNamesItsLayersInOrder) {
    const std::vector<std::int64_t> hidden = {5};
    EXPECT_EQ(parameter_names(build_mlp({4}, hidden, 3)),
              (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
}

TEST(Zoo, MlpTakesImages) {
    const std::vector<std::int64_t> hidden = {5};
    EXPECT_EQ(build_mlp({28, 28, 1}, hidden, 3).nodes().back().shape, (Shape{3}));
}

TEST(Zoo, ADecoderIsHalfAsWideAndAtMost512) {
    // S, B, L, H and g of VideoMAE.
    for (const auto& [dim, heads, expected] :
         {std::tuple{384, 6, 192}, {768, 12, 384}, {1024, 16, 512}, {1280, 16, 512}, {1408, 16, 512}}) {
        ModelConfig config;
        config.name = "videomae_pretrain";
        config.dim = dim;
        config.heads = heads;
        config.depth = 1;
        config.patch = 16;
        const GraphSpec spec = build_model(config, {{32, 32, 48}, 0});
        const auto& nodes = spec.nodes();
        const auto is_wide = [width = expected](const auto& node) {
            return node.name == "encoder_to_decoder" && node.shape[node.shape.rank() - 1] == width;
        };
        EXPECT_TRUE(std::ranges::any_of(nodes, is_wide)) << dim;
    }
}

TEST(Zoo, LocatorIsAResidualNetworkUpToAHeatMap) {
    const GraphSpec graph = build_locator("resnet18", {64, 96, 3});
    EXPECT_EQ(graph.nodes().back().shape, (Shape{16, 24, 2}));
    const std::vector<std::string> names = parameter_names(graph);
    EXPECT_EQ(names.front(), "backbone.conv1.weight");
    EXPECT_EQ(std::ranges::count(names, "backbone.layer4.1.bn2.bias"), 1);
    const std::vector<std::string> behind(names.end() - 11, names.end());
    EXPECT_EQ(behind, (std::vector<std::string>{"decoder.0.weight", "decoder.1.weight", "decoder.1.bias",
                                                "decoder.3.weight", "decoder.4.weight", "decoder.4.bias",
                                                "decoder.6.weight", "decoder.7.weight", "decoder.7.bias",
                                                "head.weight", "head.bias"}));
    std::int64_t parameters = 0;
    for (const auto& node : graph.nodes())
        if (node.layer)
            for (const ParameterSpec& parameter : node.layer->parameters())
                parameters += parameter.view.count();
    // torchvision's resnet18 without fc; 4 x 4 kernels from 512 and twice from 256 to 256 channels, norms,
    // and two outputs.
    EXPECT_EQ(parameters, 11'176'512 + 16 * 256 * (512 + 256 + 256) + 3 * 512 + 2 * 257);
    EXPECT_EQ(build_locator("resnet50", {384, 384, 3}).nodes().back().shape, (Shape{96, 96, 2}));
    EXPECT_EQ(message([] {
                  build_locator("resnet18", {64, 90, 3});
              }),
              "the model locator needs images whose sides are multiples of 32, but the data have 90 columns; "
              "pack them anew: trainer pack images --size 384 --fit letterbox");
}

TEST(Zoo, TemporalTransformerSaysFourNumbersOfEachSecond) {
    const auto parameters_of = [](const GraphSpec& graph) {
        std::int64_t count = 0;
        for (const auto& node : graph.nodes())
            if (node.layer)
                for (const ParameterSpec& parameter : node.layer->parameters())
                    count += parameter.view.count();
        return count;
    };
    // A layer of width 512: two norms, attention in and out, and a hidden layer of 2048.
    constexpr std::int64_t layer = 4 * 512 + 4 * 512 * 513 + 2 * 512 * 2048 + 2048 + 512, heads = 3 * 513;
    const GraphSpec early = build_temporal_transformer({90, 2945}, {});
    EXPECT_EQ(early.nodes().back().shape, (Shape{90, 4}));
    EXPECT_EQ(parameters_of(early), 2945 * 512 + 2 * 512 + 16 * layer + 2 * 512 + heads);
    TemporalTransformerOptions options;
    options.features = {512, 2048, 384};
    options.cross = true;
    options.depth = 3;
    const GraphSpec cross = build_temporal_transformer({90, 2945}, options);
    EXPECT_EQ(cross.nodes().back().shape, (Shape{90, 4}));
    // A layer that attends to another sequence has a norm more.
    EXPECT_EQ(parameters_of(cross), (512 + 2048 + 384 + 3) * 2048 + 3 * 2049 * 512 + 9 * layer +
                                        12 * (layer + 2 * 512) + 1025 * 512 + 2 * 512 + heads);
    EXPECT_EQ(message([] {
                  build_temporal_transformer({28, 28, 1}, {});
              }),
              "model temporal_transformer needs sequences, but the data have samples of shape [28, 28, 1]; "
              "pack them with trainer pack features --sequences");
    options.features = {512, 2048};
    EXPECT_EQ(
        message([&] {
            build_temporal_transformer({90, 2561}, options);
        }),
        "model.fusion is cross, but model.features has 2 widths; give those of picture, sound and text: "
        "model.features: [512, 2048, 384]");
}

TEST(Zoo, ClipsOfAnotherNumberOfFramesAreRefused) {
    for (const char* name : {"videomae", "videomae_pretrain"}) {
        ModelConfig config;
        config.name = name;
        config.frames = 4;
        config.depth = 1;
        const auto build = [&](std::int64_t frames) {
            build_model(config, {.sample_shape = {32, 32, 24}, .classes = 2, .frames = frames});
        };
        EXPECT_NO_THROW(build(0)) << name;
        EXPECT_NO_THROW(build(4)) << name;
        EXPECT_EQ(
            message([&] { build(8); }),
            "model.frames is 4, but the data have clips of 8 frames; set model.frames: 8, or pack clips "
            "of 4 frames (trainer pack clips --frames)");
    }
}

TEST(Zoo, SequencesAreRefusedWhereOneVectorIsNeeded) {
    for (const char* name : {"mlp", "lenet", "mnist", "resnet18", "vit", "videomae", "locator"}) {
        ModelConfig config;
        config.name = name;
        EXPECT_THROW(build_model(config, {.sample_shape = {6, 4}, .classes = 2}), UsageError) << name;
    }
}

TEST(Zoo, SequentialNamesLayersByTheirPlaceAsPyTorchDoes) {
    const std::vector<LayerSpec> layers = {layer("conv2d", {{"out", {"4"}}, {"kernel", {"3"}}}),
                                           layer("relu"), layer("max_pool2d", {{"kernel", {"2"}}}),
                                           layer("flatten"), layer("linear", {{"out", {"10"}}})};
    const GraphSpec graph = build_sequential({8, 8, 1}, layers);
    EXPECT_EQ(parameter_names(graph), (std::vector<std::string>{"0.weight", "0.bias", "4.weight", "4.bias"}));
    EXPECT_EQ(graph.nodes().back().layer->parameters()[0].view, (Shape{10, 4, 3, 3}))
        << "channels first in the file";
}

TEST(Zoo, SequentialRemembersTheImageThroughElementwiseLayers) {
    const std::vector<LayerSpec> layers = {layer("flatten"), layer("relu"), layer("linear", {{"out", {"3"}}}),
                                           layer("linear", {{"out", {"2"}}})};
    const GraphSpec graph = build_sequential({2, 2, 3}, layers);
    EXPECT_EQ(graph.nodes()[3].layer->parameters()[0].view.rank(), 4u);
    EXPECT_EQ(graph.nodes()[4].layer->parameters()[0].view.rank(), 2u);
}

TEST(Zoo, SequentialForgetsTheImageBehindALinearLayerOfItsSize) {
    const std::vector<LayerSpec> layers = {layer("flatten"), layer("flatten"),
                                           layer("linear", {{"out", {"12"}}}), layer("relu"),
                                           layer("linear", {{"out", {"2"}}})};
    const GraphSpec graph = build_sequential({2, 2, 3}, layers);
    EXPECT_EQ(graph.nodes()[3].layer->parameters()[0].view.rank(), 4u);
    EXPECT_EQ(graph.nodes()[5].layer->parameters()[0].view.rank(), 2u);
}

TEST(Zoo, PairsMayBeGivenAsHeightAndWidth) {
    const std::vector<LayerSpec> layers = {layer("conv2d", {{"out", {"4"}}, {"kernel", {"3", "5"}}})};
    EXPECT_EQ(build_sequential({8, 8, 1}, layers).nodes().back().shape, (Shape{6, 4, 4}));
}

TEST(Zoo, AnUnknownLayerIsRefusedWithTheNearestOne) {
    const std::vector<LayerSpec> layers = {layer("conv2")};
    const std::string text = message([&] { build_sequential({8, 8, 1}, layers); });
    EXPECT_EQ(text, "model.layers[0]: no layer is called conv2; did you mean conv2d?");
}

TEST(Zoo, AnUnknownArgumentIsRefusedWithTheNearestOne) {
    const std::vector<LayerSpec> layers = {
        layer("conv2d", {{"out", {"4"}}, {"kernel", {"3"}}, {"strid", {"2"}}})};
    const std::string text = message([&] { build_sequential({8, 8, 1}, layers); });
    EXPECT_EQ(text, "model.layers[0]: conv2d has no argument strid; did you mean stride?");
}

TEST(Zoo, AMissingArgumentIsNamed) {
    const std::vector<LayerSpec> layers = {layer("linear")};
    EXPECT_NE(message([&] { build_sequential({8}, layers); }).find("linear needs out"), std::string::npos);
}

TEST(Zoo, AWrongValueIsNamed) {
    const std::vector<LayerSpec> layers = {layer("linear", {{"out", {"many"}}})};
    EXPECT_NE(message([&] { build_sequential({8}, layers); }).find("linear.out is many"), std::string::npos);
}

TEST(Zoo, AShapeThatDoesNotFitNamesTheLayer) {
    const std::vector<LayerSpec> layers = {
        layer("flatten"), {"conv2d", {{"out", {"4"}}, {"kernel", {"3"}}}, "model.layers[1]"}};
    EXPECT_EQ(message([&] { build_sequential({8, 8, 1}, layers); }).find("model.layers[1]"), 0u);
}

TEST(Zoo, TooFewOutputsForTheClassesAreRefused) {
    ModelConfig config;
    config.layers = {layer("linear", {{"out", {"3"}}})};
    EXPECT_NE(message([&] { build_model(config, {{8}, 10}); }).find("10 classes"), std::string::npos);
}

TEST(Zoo, FewerClassesThanTheDataHaveAreRefused) {
    ModelConfig config;
    config.name = "mlp";
    config.classes = 5;
    EXPECT_NE(message([&] { build_model(config, {{8}, 10}); }).find("model.classes is 5"), std::string::npos);
}

TEST(Zoo, LenetOnVectorsIsRefused) {
    ModelConfig config;
    config.name = "lenet";
    EXPECT_NE(message([&] { build_model(config, {{784}, 10}); }).find("needs images"), std::string::npos);
}

TEST(Zoo, AnImageSizeThatContradictsTheDataIsRefused) {
    ModelConfig config;
    config.name = "lenet";
    config.image = 32;
    EXPECT_NE(message([&] {
                  build_model(config, {{28, 28, 1}, 10});
              }).find("model.image is 32"),
              std::string::npos);
}

std::int64_t parameter_count(const GraphSpec& graph) {
    std::int64_t count = 0;
    for (const auto& node : graph.nodes())
        if (node.layer)
            for (const ParameterSpec& parameter : node.layer->parameters())
                count += parameter.file_shape.count();
    return count;
}

// The numbers of torchvision's documentation.
TEST(Zoo, ResidualNetworksHaveTorchvisionsParameters) {
    EXPECT_EQ(parameter_count(build_resnet("resnet18", {224, 224, 3}, "imagenet", 1000)), 11689512);
    EXPECT_EQ(parameter_count(build_resnet("resnet34", {224, 224, 3}, "imagenet", 1000)), 21797672);
    EXPECT_EQ(parameter_count(build_resnet("resnet50", {224, 224, 3}, "imagenet", 1000)), 25557032);
}

TEST(Zoo, TheImagenetStemShrinksAnImageThirtyTwoTimesTheOtherEightTimes) {
    const auto before_pooling = [](const std::string& stem) {
        const GraphSpec graph = build_resnet("resnet18", {224, 224, 3}, stem, 10);
        return graph.nodes()[graph.nodes().size() - 3].shape;
    };
    EXPECT_EQ(before_pooling("imagenet"), (Shape{7, 7, 512}));
    EXPECT_EQ(before_pooling("cifar"), (Shape{28, 28, 512}));
}

TEST(Zoo, ResidualNetworksBeginAsTorchvisionsDo) {
    const GraphSpec graph = build_resnet("resnet18", {32, 32, 3}, "cifar", 10);
    const auto& conv = graph.nodes()[1].layer->parameters();
    ASSERT_EQ(conv.size(), 1u) << "no bias";
    EXPECT_EQ(conv[0].initial.kind, Initializer::Kind::normal);
    EXPECT_DOUBLE_EQ(conv[0].initial.value * conv[0].initial.value, 2.0 / (64 * 9)) << "fan-out";
    const auto& norm = graph.nodes()[2].layer->parameters();
    EXPECT_EQ(norm[0].initial.value, 1);
    EXPECT_EQ(norm[1].initial.value, 0);
}

TEST(Zoo, MnistIsTheNetworkOfPyTorchsExample) {
    const GraphSpec graph = build_mnist({28, 28, 1}, 10);
    EXPECT_EQ(parameter_names(graph),
              (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                        "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
    EXPECT_EQ(parameter_count(graph), 1199882);
}

TEST(Zoo, MnistDropsAsMuchAsPyTorchsExample) {
    GraphSpec graph = build_mnist({28, 28, 1}, 10);
    test::expect_dropped(test::made_of_ones(graph, "dropout1", 4), 0.25);
    test::expect_dropped(test::made_of_ones(graph, "dropout2", 200), 0.5);
}

TEST(Zoo, MnistRefusesImagesThatItsConvolutionsUseUp) {
    EXPECT_NE(message([] { build_mnist({5, 28, 1}, 10); }).find("at least 6 by 6"), std::string::npos);
}

TEST(Zoo, ListsTakeTheLayersOfConvolutionalNetworks) {
    const std::vector<LayerSpec> layers = {
        layer("conv_transpose2d",
              {{"out", {"4"}}, {"kernel", {"3"}}, {"stride", {"2"}}, {"output_padding", {"1"}}}),
        layer("batch_norm2d", {{"eps", {"1e-3"}}, {"momentum", {"0.01"}}}),
        layer("relu"),
        layer("avg_pool2d", {{"kernel", {"2"}}, {"count_include_pad", {"false"}}}),
        layer("dropout", {{"p", {"0.1"}}}),
        layer("adaptive_avg_pool2d", {{"out", {"3", "2"}}})};
    const GraphSpec graph = build_sequential({8, 8, 1}, layers);
    EXPECT_EQ(graph.nodes()[1].shape, (Shape{18, 18, 4}));
    EXPECT_EQ(graph.nodes()[4].shape, (Shape{9, 9, 4}));
    EXPECT_EQ(graph.nodes().back().shape, (Shape{3, 2, 4}));
    EXPECT_EQ(parameter_names(graph), (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias"}));
}

/// What a list of this one layer makes of these numbers, in training.
class OneLayer {
  public:
    OneLayer(const Shape& shape, const LayerSpec& one, const std::vector<double>& numbers)
        : samples_(std::ssize(numbers) / shape.count()),
          graph_(build_sequential(shape, std::vector{one}), *device_, DType::f64, samples_) {
        graph_.initialize(1);
        std::ranges::copy(numbers, graph_.input(samples_).span<double>().begin());
        const auto values = graph_.forward(samples_, {}).span<double>();
        output_ = {values.begin(), values.end()};
    }
    const std::vector<double>& output() const { return output_; }
    const Graph& graph() const { return graph_; }

  private:
    std::int64_t samples_;
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    Graph graph_;
    std::vector<double> output_;
};

TEST(Zoo, ListsTakeArgumentsThatChangeNoShape) {
    const LayerSpec batch_norm = layer("batch_norm2d", {{"eps", {"0.5"}}, {"momentum", {"0.25"}}});
    const OneLayer normalised({1, 2, 1}, batch_norm, {1, 2, 3, 6});  // mean 3, variance 3.5
    const std::vector<double> expected{-1, -0.5, 0, 1.5};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(normalised.output()[i], expected[i]);
    const auto saved = normalised.graph().save();
    const auto mean = std::ranges::find(saved, "0.running_mean", &NamedTensor::name);
    ASSERT_NE(mean, saved.end());
    EXPECT_DOUBLE_EQ(*reinterpret_cast<const double*>(mean->bytes.data()), 0.75);

    const OneLayer of_rows({2}, layer("layer_norm", {{"eps", {"3"}}}), {4, 6});  // mean 5, variance 1
    EXPECT_EQ(of_rows.output(), (std::vector{-0.5, 0.5}));

    const std::vector<double> ones(9, 1.0);
    const auto pooled = [&](const char* counts) {
        return OneLayer({3, 3, 1},
                        layer("avg_pool2d", {{"kernel", {"3"}},
                                             {"stride", {"2"}},
                                             {"padding", {"1"}},
                                             {"count_include_pad", {counts}}}),
                        ones)
            .output();
    };
    EXPECT_EQ(pooled("false"), std::vector<double>(4, 1.0));
    EXPECT_EQ(pooled("true"), std::vector<double>(4, 4.0 / 9));

    const OneLayer tanh({1}, layer("gelu", {{"form", {"tanh"}}}), {1});
    const OneLayer exact({1}, layer("gelu"), {1});
    EXPECT_NEAR(tanh.output()[0], 0.8411920, 1e-7);
    EXPECT_NEAR(exact.output()[0], 0.8413447, 1e-7);

    GraphSpec dropout = build_sequential({4, 4, 8}, std::vector{layer("dropout", {{"p", {"0.9"}}})});
    test::expect_dropped(test::made_of_ones(dropout, "0", 50), 0.9);

    const GraphSpec convolution = build_sequential(
        {8, 8, 2}, std::vector{layer("conv2d", {{"out", {"4"}}, {"kernel", {"3"}}, {"groups", {"2"}}}),
                               layer("conv2d", {{"out", {"4"}}, {"kernel", {"3"}}, {"bias", {"false"}}}),
                               layer("flatten"), layer("linear", {{"out", {"3"}}, {"bias", {"false"}}})});
    EXPECT_EQ(parameter_names(convolution),
              (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "3.weight"}));
    EXPECT_EQ(convolution.nodes()[1].layer->parameters()[0].file_shape, (Shape{4, 1, 3, 3}));
}

TEST(Zoo, LayersInFewestWordsAreEqualWhenTheyAreTheSame) {
    const std::vector<LayerSpec> many = {
        layer("conv2d", {{"out", {"4"}}, {"kernel", {"3", "3"}}, {"stride", {"1", "1"}}, {"bias", {"true"}}}),
        layer("max_pool2d", {{"kernel", {"3", "2"}}, {"stride", {"3", "2"}}, {"padding", {"0"}}}),
        layer("batch_norm2d", {{"eps", {"0.00001"}}, {"momentum", {"0.2"}}}),
        layer("gelu", {{"form", {"exact"}}})};
    const std::vector<LayerSpec> few = {layer("conv2d", {{"out", {"4"}}, {"kernel", {"3"}}}),
                                        layer("max_pool2d", {{"kernel", {"3", "2"}}}),
                                        layer("batch_norm2d", {{"momentum", {"0.2"}}}), layer("gelu")};
    EXPECT_EQ(without_defaults(many), few);
    EXPECT_EQ(without_defaults(few), few);
    const std::vector<LayerSpec> others = {layer("gelu", {{"form", {"tanh"}}}),
                                           layer("max_pool2d", {{"kernel", {"3"}}, {"stride", {"2"}}}),
                                           layer("unheard_of", {{"size", {"1"}}})};
    EXPECT_EQ(without_defaults(others), others);
}

TEST(Zoo, APoolingStridesByItsKernelUnlessToldOtherwise) {
    const std::vector<LayerSpec> layers = {layer("max_pool2d", {{"kernel", {"3", "2"}}})};
    EXPECT_EQ(build_sequential({9, 8, 1}, layers).nodes().back().shape, (Shape{3, 4, 1}));
}

TEST(Zoo, ListsRefuseNumbersThatNoMemoryHolds) {
    const auto refusal = [](const std::vector<LayerSpec>& layers) {
        return message([&] { build_sequential({28, 28, 1}, layers); });
    };
    const std::string four_times = "4611686018427387904";  // 0 in 64 bits
    EXPECT_EQ(refusal({layer("linear", {{"out", {four_times}}})}),
              "model.layers[0]: linear.out is 4611686018427387904; give an integer of 32 bits");
    EXPECT_EQ(refusal({layer("max_pool2d", {{"kernel", {"99999999999999999999"}}})}),
              "model.layers[0]: max_pool2d.kernel is 99999999999999999999; give an integer of 32 bits");
    // A window for each of these rows would take the memory before there is an output.
    EXPECT_EQ(
        refusal({layer("adaptive_avg_pool2d", {{"out", {"1000000000"}}})}),
        "model.layers[0]: adaptive_avg_pool2d: out is [1000000000, 1000000000]; its sides must be at least "
        "1 and at most 65536");
    EXPECT_EQ(refusal({layer("linear", {{"out", {"100000"}}}), layer("linear", {{"out", {"2000000000"}}})}),
              "layer 1 (linear): weight has the shape [2000000000, 100000], which no memory holds; make the "
              "model smaller");
    EXPECT_EQ(refusal({layer("conv2d", {{"out", {"1"}}, {"kernel", {"1"}}, {"padding", {"2000000000"}}})}),
              "layer 0 (conv2d): the output of a sample has the shape [4000000028, 4000000028, 1], which no "
              "memory holds; make the model smaller");
}

TEST(Zoo, AWrongNumberIsNamed) {
    const std::vector<LayerSpec> layers = {layer("dropout", {{"p", {"half"}}})};
    EXPECT_NE(message([&] { build_sequential({8}, layers); }).find("dropout.p is half; give a number"),
              std::string::npos);
    const std::vector<LayerSpec> infinite = {layer("layer_norm", {{"eps", {"inf"}}})};
    EXPECT_NE(message([&] { build_sequential({8}, infinite); }).find("layer_norm.eps is inf; give a number"),
              std::string::npos);
}

}  // namespace
}  // namespace tutti
