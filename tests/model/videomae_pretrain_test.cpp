// Gradients against PyTorch's: tests/train/vit_parity_test.cpp.

#include <cmath>
#include <set>

#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers_masking.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::GradientCheck;

constexpr VideoMaeOptions masked_clip{
    .tubelet = {.frames = 4, .depth = 2, .size = 2}, .dim = 6, .depth = 2, .heads = 2, .mlp_ratio = 1.5};
constexpr MaskingOptions small_decoder{
    .ratio = 0.5, .decoder_dim = 4, .decoder_depth = 1, .decoder_heads = 2};
const Shape clip_shape{4, 6, 8};  // 2 rows and 3 columns of patches, 2 groups of 2 frames of 2 colours

std::string pretrain_refusal(const VideoMaeOptions& options, const MaskingOptions& masking,
                             const Shape& shape = clip_shape) {
    try {
        build_videomae_pretrain(shape, options, masking);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "nothing was thrown";
}

std::vector<double> masked_outputs(Graph& graph, std::span<const double> input,
                                   const std::vector<std::int64_t>& positions, std::int64_t epoch = 0,
                                   Phase phase = Phase::train) {
    const auto n = static_cast<std::int64_t>(positions.size());
    std::copy(input.begin(), input.end(), graph.input(n).span<double>().begin());
    const auto result =
        graph.forward(n, {.phase = phase, .seed = 3, .epoch = epoch, .positions = positions}).span<double>();
    return {result.begin(), result.end()};
}

std::vector<double> random_clips(std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(count * clip_shape.count()));
    test::fill_random(view_of(std::span(values)), 5);
    return values;
}

TEST(VideoMaePretrain, DropsBranchesOfBothParts) {
    const VideoMaeOptions encoder{
        .tubelet = {.frames = 4, .size = 4}, .dim = 8, .depth = 2, .heads = 4, .drop_path = 0.5};
    const MaskingOptions decoder{.ratio = 0.75, .decoder_dim = 4, .decoder_depth = 3, .decoder_heads = 2};
    std::vector<std::string> names;
    GraphSpec spec = build_videomae_pretrain({16, 16, 12}, encoder, decoder);
    for (const auto& node : spec.nodes())
        if (node.layer && node.layer->kind() == "drop_path") names.push_back(node.name);
    EXPECT_EQ(names,
              (std::vector<std::string>{"encoder.blocks.1.drop_path1", "encoder.blocks.1.drop_path2",
                                        "decoder.blocks.1.drop_path1", "decoder.blocks.1.drop_path2",
                                        "decoder.blocks.2.drop_path1", "decoder.blocks.2.drop_path2"}));
    for (const std::string& name : names) {
        SCOPED_TRACE(name);
        test::expect_samples_dropped(test::made_of_ones(spec, name, 2000), 2000,
                                     name.starts_with("decoder.blocks.1.") ? 0.25 : 0.5);
    }
}

TEST(VideoMaePretrain, HasTheNamesAndShapesOfVideoMae) {
    const auto device = make_cpu_device(1);
    const Graph graph(
        build_videomae_pretrain({16, 16, 12},
                                {.tubelet = {.frames = 4, .size = 4}, .dim = 32, .depth = 1, .heads = 4},
                                {.ratio = 0.75, .decoder_dim = 16, .decoder_depth = 1, .decoder_heads = 2}),
        *device, DType::f32, 1);
    std::vector<std::string> expected = {"encoder.patch_embed.proj.weight [32, 3, 2, 4, 4]",
                                         "encoder.patch_embed.proj.bias [32]"};
    const auto block = [&](const std::string& prefix, const std::string& c, const std::string& c3,
                           const std::string& c4) {
        for (const std::string& parameter :
             {"norm1.weight [" + c + "]", "norm1.bias [" + c + "]", "attn.q_bias [" + c + "]",
              "attn.v_bias [" + c + "]", "attn.qkv.weight [" + c3 + ", " + c + "]",
              "attn.proj.weight [" + c + ", " + c + "]", "attn.proj.bias [" + c + "]",
              "norm2.weight [" + c + "]", "norm2.bias [" + c + "]", "mlp.fc1.weight [" + c4 + ", " + c + "]",
              "mlp.fc1.bias [" + c4 + "]", "mlp.fc2.weight [" + c + ", " + c4 + "]",
              "mlp.fc2.bias [" + c + "]"})
            expected.push_back(prefix + parameter);
    };
    block("encoder.blocks.0.", "32", "96", "128");
    for (const char* parameter : {"encoder.norm.weight [32]", "encoder.norm.bias [32]",
                                  "encoder_to_decoder.weight [16, 32]", "mask_token [1, 1, 16]"})
        expected.emplace_back(parameter);
    block("decoder.blocks.0.", "16", "48", "64");
    for (const char* parameter : {"decoder.norm.weight [16]", "decoder.norm.bias [16]",
                                  "decoder.head.weight [96, 16]", "decoder.head.bias [96]"})
        expected.emplace_back(parameter);
    std::vector<std::string> names;
    for (const NamedTensor& tensor : graph.save())
        names.push_back(tensor.name + " " + to_string(tensor.shape));
    EXPECT_EQ(names, expected);
}

TEST(VideoMaePretrain, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(build_videomae_pretrain(clip_shape, masked_clip, small_decoder), 2).expect_gradients(1e-7);
}

TEST(VideoMaePretrain, TheUsualSizeHidesWhatThePaperHides) {
    const TubeMask mask = tube_mask({224, 224, 48}, {}, 0.9);
    EXPECT_EQ(mask.hidden, 176);
    EXPECT_EQ(mask.visible_tokens(), 160);
    const GraphSpec graph = build_videomae_pretrain({224, 224, 48}, {}, {});
    EXPECT_EQ(graph.nodes().back().shape, (Shape{1408 * 1536}));
    std::int64_t parameters = 0;
    for (const auto& node : graph.nodes())
        if (node.layer)
            for (const ParameterSpec& parameter : node.layer->parameters())
                parameters += parameter.file_shape.count();
    const std::int64_t encoder = 1536 * 384 + 384 + 12 * (12 * 384 * 384 + 12 * 384) + 2 * 384;
    const std::int64_t decoder = 4 * (12 * 192 * 192 + 12 * 192) + 2 * 192 + 192 * 1536 + 1536;
    EXPECT_EQ(parameters, encoder + 384 * 192 + 192 + decoder);
}

constexpr VideoMaeOptions running_clip{
    .tubelet = {.frames = 8, .depth = 2, .size = 2}, .dim = 6, .depth = 1, .heads = 2, .mlp_ratio = 1.5};
constexpr MaskingOptions running_decoder{
    .ratio = 0.75, .decoder_dim = 4, .decoder_depth = 1, .decoder_heads = 2, .decoder_ratio = 0.5};

TEST(VideoMaePretrain, ADecodersMaskHalvesWhatIsSaid) {
    MaskingOptions masking;
    masking.decoder_ratio = 0.5;
    const GraphSpec graph = build_videomae_pretrain({224, 224, 48}, {}, masking);
    EXPECT_EQ(graph.nodes().back().shape, (Shape{704 * 1536}));
    for (const auto& node : graph.nodes())
        if (node.layer && node.layer->kind() == "mask_tokens") {
            EXPECT_EQ(node.shape, (Shape{160 + 784, 192}));
        }
    GradientCheck(build_videomae_pretrain({4, 8, 16}, running_clip, running_decoder), 2)
        .expect_gradients(1e-7);
}

TEST(VideoMaePretrain, ADecodersMaskThatDoesNotFitIsRefused) {
    const auto refusal = [](double ratio, const Shape& shape, Tubelet tubelet = running_clip.tubelet) {
        VideoMaeOptions options = running_clip;
        options.tubelet = tubelet;
        MaskingOptions masking = running_decoder;
        masking.decoder_ratio = ratio;
        return pretrain_refusal(options, masking, shape);
    };
    EXPECT_EQ(refusal(0.5, {4, 8, 16}), "nothing was thrown");
    EXPECT_EQ(
        refusal(0.2, {4, 8, 16}),
        "model.decoder_mask_ratio is 0.2, which drops none of a cell's four patches; set it to 0.25, 0.5 "
        "or 0.75, or to 0 for a decoder that says all that is hidden");
    const std::string other =
        "; choose clips, model.patch and model.tubelet so that rows and columns are even and groups a "
        "multiple "
        "of 4, or leave it out";
    const std::string begin =
        "model.decoder_mask_ratio: cells of 2 x 2 patches that run over 4 groups of frames do not fit into "
        "clips of ";
    EXPECT_EQ(refusal(0.5, {4, 6, 16}), begin + "2 x 3 patches in 4 groups" + other);
    EXPECT_EQ(refusal(0.5, {6, 4, 16}), begin + "3 x 2 patches in 4 groups" + other);
    EXPECT_EQ(refusal(0.5, {4, 8, 8}, {.frames = 4, .depth = 2, .size = 2}),
              begin + "2 x 4 patches in 2 groups" + other);
}

// Of half of 6 patches 3 are hidden, in both groups of frames: what is said of them does not follow from what
// they are, but from every patch that is seen.
TEST(VideoMaePretrain, WhatIsHiddenIsNotSeenAndWhatIsVisibleIs) {
    const auto device = make_cpu_device(1);
    Graph graph(build_videomae_pretrain(clip_shape, masked_clip, small_decoder), *device, DType::f64, 1);
    graph.initialize(1);
    const std::vector<double> input = random_clips(1);
    const std::vector<double> before = masked_outputs(graph, input, {4});
    int unseen = 0;
    for (std::int64_t place = 0; place < 6; ++place) {
        // Twice as bright: a patch's target stays as it is, but what follows from it does not.
        std::vector<double> brighter = input;
        for (std::int64_t y = 0; y < 2; ++y)
            for (std::int64_t x = 0; x < 2; ++x)
                for (std::int64_t c = 0; c < 8; ++c) {
                    const std::int64_t row = place / 3 * 2 + y, column = place % 3 * 2 + x;
                    brighter[static_cast<std::size_t>((row * 6 + column) * 8 + c)] *= 2;
                }
        const std::vector<double> after = masked_outputs(graph, brighter, {4});
        double difference = 0;
        for (std::size_t i = 0; i < after.size(); ++i)
            difference = std::max(difference, std::abs(after[i] - before[i]));
        unseen += difference < 1e-4 ? 1 : 0;  // 1e-6 is added to another standard deviation
        EXPECT_TRUE(difference < 1e-4 || difference > 1e-3) << difference;
    }
    EXPECT_EQ(unseen, 3);
}

TEST(VideoMaePretrain, ASampleIsMaskedByItsPositionAlone) {
    const auto device = make_cpu_device(2);
    Graph graph(build_videomae_pretrain(clip_shape, masked_clip, small_decoder), *device, DType::f64, 3);
    graph.initialize(1);
    const std::vector<double> input = random_clips(3);
    const auto one = [&](std::size_t i) {
        return std::span(input).subspan(i * static_cast<std::size_t>(clip_shape.count()),
                                        static_cast<std::size_t>(clip_shape.count()));
    };
    const std::vector<double> all = masked_outputs(graph, input, {8, 1, 30});
    std::vector<double> apart;
    for (const auto& [sample, position] : {std::pair{0, 8}, {1, 1}, {2, 30}}) {
        const auto part = masked_outputs(graph, one(static_cast<std::size_t>(sample)), {position});
        apart.insert(apart.end(), part.begin(), part.end());
    }
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(all[i], apart[i], 1e-12);
    EXPECT_EQ(masked_outputs(graph, one(0), {8}), masked_outputs(graph, one(0), {8}, 0, Phase::evaluate));
    EXPECT_NE(masked_outputs(graph, one(0), {8}), masked_outputs(graph, one(0), {9}));
    EXPECT_NE(masked_outputs(graph, one(0), {8}), masked_outputs(graph, one(0), {8}, 1));
}

TEST(VideoMaePretrain, BeginsAsVideoMaeDoes) {
    const auto device = make_cpu_device(1);
    Graph graph(build_videomae_pretrain(
                    clip_shape, {.tubelet = masked_clip.tubelet, .dim = 64, .depth = 1, .heads = 2},
                    {.ratio = 0.5, .decoder_dim = 32, .decoder_depth = 1, .decoder_heads = 2}),
                *device, DType::f64, 1);
    graph.initialize(1);
    std::set<std::string> seen;
    for (const NamedTensor& tensor : graph.save()) {
        const auto* begin = reinterpret_cast<const double*>(tensor.bytes.data());
        const std::span values(begin, static_cast<std::size_t>(tensor.shape.count()));
        double greatest = 0;
        for (const double value : values) greatest = std::max(greatest, std::abs(value));
        // Xavier: √(6/(in + out)); torch.nn.Linear: 1/√in.
        double bound = -1;
        if (tensor.name == "encoder.blocks.0.attn.qkv.weight") bound = std::sqrt(6.0 / (64 + 192));
        if (tensor.name == "decoder.blocks.0.mlp.fc1.weight") bound = std::sqrt(6.0 / (32 + 128));
        if (tensor.name == "decoder.head.weight") bound = std::sqrt(6.0 / (32 + 16));
        if (tensor.name == "encoder_to_decoder.weight") bound = 1.0 / 8;
        if (tensor.name == "mask_token") bound = 0.02;
        if (tensor.name.ends_with(".bias") && tensor.name != "encoder.patch_embed.proj.bias") bound = 0;
        if (bound < 0) continue;
        seen.insert(tensor.name);
        EXPECT_LE(greatest, bound) << tensor.name;
        EXPECT_GE(greatest, 0.85 * bound) << tensor.name;
    }
    EXPECT_EQ(seen.size(), 5U + 13U);
}

TEST(VideoMaePretrain, RecomputingChangesNoBit) {
    const auto device = make_cpu_device(1);
    const std::vector<double> input = random_clips(2);
    const std::vector<std::int64_t> positions{4, 5};
    std::vector<std::vector<double>> gradients;
    for (const bool recompute : {false, true}) {
        Graph graph(build_videomae_pretrain(clip_shape, masked_clip, small_decoder), *device, DType::f64, 2,
                    recompute);
        graph.initialize(1);
        std::copy(input.begin(), input.end(), graph.input(2).span<double>().begin());
        const StepContext step{.seed = 1, .positions = positions};
        const auto loss = make_mean_square_loss(*device, DType::f64);
        loss->forward(graph.forward(2, step), {}, graph.output_gradient(2));
        loss->backward({}, 0.5, graph.output_gradient(2));
        graph.backward(2, step, {});
        const auto arena = graph.gradient_arena().span<double>();
        gradients.emplace_back(arena.begin(), arena.end());
    }
    EXPECT_EQ(gradients[0], gradients[1]);
    const auto activations = [&](bool recompute) {
        return Graph(build_videomae_pretrain(
                         clip_shape, {.tubelet = masked_clip.tubelet, .dim = 24, .depth = 8, .heads = 2},
                         small_decoder),
                     *device, DType::f32, 16, recompute)
            .memory()
            .activations;
    };
    EXPECT_LT(2 * activations(true), activations(false));
}

TEST(VideoMaePretrain, WhatCannotBeIsRefusedWithTheKey) {
    MaskingOptions masking = small_decoder;
    masking.ratio = 0.1;
    EXPECT_NE(
        pretrain_refusal(masked_clip, masking).find("model.mask_ratio is 0.1, which hides 0 of 6 patches"),
        std::string::npos);
    masking = small_decoder;
    masking.decoder_heads = 3;
    EXPECT_NE(
        pretrain_refusal(masked_clip, masking).find("model.decoder_dim is 4, which 3 heads cannot share"),
        std::string::npos);
    VideoMaeOptions options = masked_clip;
    options.tubelet = {.frames = 4, .depth = 1, .size = 1};
    EXPECT_NE(pretrain_refusal(options, small_decoder).find("model.patch"), std::string::npos);
    options = masked_clip;
    EXPECT_NE(pretrain_refusal(options, small_decoder, {4, 6, 6})
                  .find("model.frames is 4, but the data have 6 channels"),
              std::string::npos);
}

}  // namespace
}  // namespace tutti
