#include <cmath>

#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::GradientCheck;

constexpr VideoMaeOptions small_clip{
    .tubelet = {.frames = 4, .depth = 2, .size = 2}, .dim = 6, .depth = 2, .heads = 2, .mlp_ratio = 1.5};

std::string clip_message(const VideoMaeOptions& options, const Shape& clip = {4, 4, 12}) {
    try {
        build_videomae(clip, options, 3);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST(VideoMae, HasTheNamesAndShapesOfVideoMaeAndSavesNoPositions) {
    const auto device = make_cpu_device(1);
    const Graph graph(
        build_videomae({8, 8, 12}, {.tubelet = {.frames = 4, .size = 4}, .dim = 32, .depth = 2, .heads = 4},
                       3),
        *device, DType::f32, 1);
    std::vector<std::string> expected = {"patch_embed.proj.weight [32, 3, 2, 4, 4]",
                                         "patch_embed.proj.bias [32]"};
    for (const std::string block : {"blocks.0.", "blocks.1."})
        for (const std::string parameter :
             {"norm1.weight [32]", "norm1.bias [32]", "attn.q_bias [32]", "attn.v_bias [32]",
              "attn.qkv.weight [96, 32]", "attn.proj.weight [32, 32]", "attn.proj.bias [32]",
              "norm2.weight [32]", "norm2.bias [32]", "mlp.fc1.weight [128, 32]", "mlp.fc1.bias [128]",
              "mlp.fc2.weight [32, 128]", "mlp.fc2.bias [32]"})
            expected.push_back(block + parameter);
    for (const char* parameter :
         {"fc_norm.weight [32]", "fc_norm.bias [32]", "head.weight [3, 32]", "head.bias [3]"})
        expected.emplace_back(parameter);
    std::vector<std::string> names;
    for (const NamedTensor& tensor : graph.save())
        names.push_back(tensor.name + " " + to_string(tensor.shape));
    EXPECT_EQ(names, expected);
}

TEST(VideoMae, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(build_videomae({4, 4, 8}, small_clip, 3), 2).expect_gradients(1e-7);
}

TEST(VideoMae, TheUsualSizeIsTheSmallOneOfSixteenFrames) {
    const GraphSpec graph = build_videomae({224, 224, 48}, {}, 2);
    std::int64_t parameters = 0;
    for (const auto& node : graph.nodes())
        if (node.layer)
            for (const ParameterSpec& parameter : node.layer->parameters())
                parameters += parameter.file_shape.count();
    // 12 blocks of 12·384² weights and 12·384 biases and norms less the keys' (VideoMAE's ViT-S/16: 22
    // million).
    EXPECT_EQ(parameters, 1536 * 384 + 384 + 12 * (12 * 384 * 384 + 12 * 384) + 2 * 384 + 2 * 384 + 2);
    EXPECT_EQ(graph.shape(1), (Shape{1568, 1536}));
}

// The class probabilities begin even: the head is small.
TEST(VideoMae, TheHeadBeginsAtAThousandth) {
    const auto device = make_cpu_device(1);
    Graph graph(build_videomae({4, 4, 8}, small_clip, 500), *device, DType::f64, 1);
    graph.initialize(1);
    for (const NamedTensor& tensor : graph.save()) {
        if (!tensor.name.ends_with("head.weight") && !tensor.name.ends_with("fc1.weight")) continue;
        const auto* values = reinterpret_cast<const double*>(tensor.bytes.data());
        double squares = 0;
        for (std::int64_t i = 0; i < tensor.shape.count(); ++i) squares += values[i] * values[i];
        const double std = std::sqrt(squares / static_cast<double>(tensor.shape.count()));
        const double expected = tensor.name.ends_with("head.weight") ? 2e-5 : 2e-2;
        EXPECT_NEAR(std, expected, 0.2 * expected) << tensor.name;
    }
}

TEST(VideoMae, ItsPositionsCountFramesBeforeRowsBeforeColumns) {
    const Tubelet tubelet{.frames = 6, .depth = 2, .size = 2};  // 3 groups of frames
    const Shape clip{4, 6, 6}, tokens{18, 4};                   // 2 rows and 3 columns
    GraphSpec spec(tokens);
    spec.add("positions", make_tubelet_positions(tokens, clip, tubelet), {0});
    const auto device = make_cpu_device(1);
    Graph graph(std::move(spec), *device, DType::f64, 1);
    device->ops(DType::f64).fill(graph.input(1), 0);
    const auto table = graph.forward(1, {}).span<double>();
    std::size_t next = 0;
    for (int row = 0; row < 2; ++row)
        for (int column = 0; column < 3; ++column)
            for (int group = 0; group < 3; ++group) {
                const double p = (group * 2 + row) * 3 + column;
                for (const double expected : {std::sin(p), std::cos(p), std::sin(p / 100), std::cos(p / 100)})
                    EXPECT_NEAR(table[next++], expected, 1e-15);
            }
    EXPECT_TRUE(graph.save().empty());
}

TEST(VideoMae, TheQueriesBiasAndTheValuesAreThoseOfOneLinearLayer) {
    const auto device = make_cpu_device(1);
    GraphSpec one({3, 2}), two({3, 2});
    one.add("attn", make_query_key_value({3, 2}), {0});
    two.add("attn.qkv", make_linear({3, 2}, 6, true), {0});
    Graph parts(std::move(one), *device, DType::f64, 2), whole(std::move(two), *device, DType::f64, 2);
    parts.initialize(1);
    test::fill_random(parts.parameter_arena(), 2);
    std::vector<NamedTensor> tensors = parts.save();  // q_bias, v_bias, qkv.weight
    ASSERT_EQ(tensors.size(), 3U);
    NamedTensor bias{"attn.qkv.bias", DType::f64, {6}, tensors[0].bytes};
    bias.bytes.resize(4 * sizeof(double), std::byte{0});
    bias.bytes.insert(bias.bytes.end(), tensors[1].bytes.begin(), tensors[1].bytes.end());
    const std::vector<NamedTensor> joined{tensors[2], bias};
    whole.load(joined, "the test");
    for (Graph* graph : {&parts, &whole}) test::fill_random(graph->input(2), 3);
    const TensorView a = parts.forward(2, {}), b = whole.forward(2, {});
    for (std::size_t i = 0; i < a.span<double>().size(); ++i)
        EXPECT_EQ(a.span<double>()[i], b.span<double>()[i]);

    for (Graph* graph : {&parts, &whole}) {
        test::fill_random(graph->output_gradient(2), 4);
        graph->backward(2, {}, {});
    }
    const auto values = [](const NamedTensor& tensor) {
        const auto* begin = reinterpret_cast<const double*>(tensor.bytes.data());
        return std::vector<double>(begin, begin + tensor.shape.count());
    };
    const auto of_parts = parts.save_arena(parts.gradient_arena(), ""),
               of_whole = whole.save_arena(whole.gradient_arena(), "");
    EXPECT_EQ(values(of_parts[2]), values(of_whole[0]));
    const std::vector<double> q = values(of_parts[0]), v = values(of_parts[1]), all = values(of_whole[1]);
    EXPECT_EQ(q, std::vector<double>(all.begin(), all.begin() + 2));
    EXPECT_EQ(v, std::vector<double>(all.begin() + 4, all.end()));
}

TEST(VideoMae, ClipsThatDoNotFitAreRefusedWithTheKey) {
    VideoMaeOptions options = small_clip;
    EXPECT_NE(clip_message(options, {4, 4, 6}).find("model.frames is 4, but the data have 6 channels"),
              std::string::npos);
    options.tubelet.depth = 3;
    EXPECT_NE(clip_message(options).find("model.tubelet is 3, but a clip has 4 frames"), std::string::npos);
    options = small_clip;
    options.tubelet.size = 3;
    EXPECT_NE(clip_message(options).find("model.patch is 3, but the frames have 4 x 4 pixels"),
              std::string::npos);
    options = small_clip;
    options.heads = 4;
    EXPECT_NE(clip_message(options).find("4 heads cannot share"), std::string::npos);
}

}  // namespace
}  // namespace tutti
