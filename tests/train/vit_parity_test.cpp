// Every gradient of a transformer's first step against PyTorch's in fp64 (tests/parity/make_vit_reference.py
// make_videomae_reference.py and make_videomae_pretrain_reference.py).

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>

#include "tutti/device/device.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

/// tests/parity/vit_weights.py: elements in the order of names from one mt19937, U(±0.2), around 1 for the
/// weights of norms.
std::vector<NamedTensor> weights_of(const Graph& graph) {
    std::map<std::string, NamedTensor> by_name;
    for (NamedTensor& tensor : graph.save()) by_name[tensor.name] = std::move(tensor);
    std::mt19937 random(0);
    const float low = -0.2f, width = 0.2f - low;
    std::vector<NamedTensor> result;
    for (auto& [name, tensor] : by_name) {
        const bool around_1 = name.find("norm") != std::string::npos && name.ends_with(".weight");
        auto* values = reinterpret_cast<double*>(tensor.bytes.data());
        for (std::int64_t i = 0; i < tensor.shape.count(); ++i) {
            const double unit = static_cast<double>(random() & 0xffffffU) * 0x1p-24;
            const auto value =
                static_cast<float>(unit * static_cast<double>(width) + static_cast<double>(low));
            values[i] =
                static_cast<double>(around_1 ? static_cast<float>(1.0 + static_cast<double>(value)) : value);
        }
        result.push_back(std::move(tensor));
    }
    return result;
}

double distance(const NamedTensor& a, const NamedTensor& b) {
    const auto* x = reinterpret_cast<const double*>(a.bytes.data());
    const auto* y = reinterpret_cast<const double*>(b.bytes.data());
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < a.shape.count(); ++i) {
        difference += (x[i] - y[i]) * (x[i] - y[i]);
        norm += y[i] * y[i];
    }
    return std::sqrt(difference / norm);
}

using Reference = std::map<std::string, NamedTensor>;

Reference read_reference(const std::string& file) {
    Reference reference;
    for (NamedTensor& tensor : read_weights(TUTTI_PARITY_FOLDER "/" + file))
        reference[tensor.name] = std::move(tensor);
    return reference;
}

/// others: what the reference holds beside gradients.
void expect_gradients(const Graph& graph, const Reference& reference, std::size_t others) {
    const auto gradients = graph.save_arena(graph.gradient_arena(), "gradient.");
    EXPECT_EQ(gradients.size() + others, reference.size());
    for (const NamedTensor& gradient : gradients) {
        ASSERT_TRUE(reference.contains(gradient.name)) << gradient.name;
        ASSERT_EQ(gradient.shape, reference.at(gradient.name).shape) << gradient.name;
        EXPECT_LT(distance(gradient, reference.at(gradient.name)), 1e-9) << gradient.name;
    }
}

void expect_pytorchs_first_step(GraphSpec spec, const std::string& file) {
    Reference reference = read_reference(file);
    NamedTensor& pixels = reference.at("pixels");
    NamedTensor& labels = reference.at("labels");
    const std::int64_t batch = pixels.shape[0];

    const auto device = make_cpu_device(1);
    Graph graph(std::move(spec), *device, DType::f64, batch);
    graph.load(weights_of(graph), "the test");
    const auto input = graph.input(batch).span<double>();
    for (std::size_t i = 0; i < input.size(); ++i)
        input[i] = static_cast<double>(static_cast<float>(std::to_integer<int>(pixels.bytes[i])) / 255.0f);

    const TensorView targets{labels.bytes.data(), DType::i64, {batch}};
    const auto loss = make_softmax_cross_entropy(*device, DType::f64);
    const TensorView logits = graph.forward(batch, {});
    const double mean =
        loss->forward(logits, targets, graph.output_gradient(batch)).loss / static_cast<double>(batch);
    const double expected = *reinterpret_cast<const double*>(reference.at("loss").bytes.data());
    EXPECT_NEAR(mean, expected, 1e-12 * expected);
    loss->backward(targets, 1.0 / static_cast<double>(batch), graph.output_gradient(batch));
    graph.backward(batch, {}, {});
    expect_gradients(graph, reference, 3);  // pixels, labels and loss
}

TEST(VitParity, EveryGradientOfTheFirstStepIsPyTorchs) {
    expect_pytorchs_first_step(build_vit({28, 28, 1}, {.patch = 7, .dim = 32, .depth = 2, .heads = 4}, 10),
                               "vit_first_step.safetensors");
}

TEST(VideoMaeParity, EveryGradientOfTheFirstStepIsPyTorchs) {
    const Tubelet tubelet{.frames = 4, .depth = 2, .size = 4};
    expect_pytorchs_first_step(
        build_videomae({8, 8, 12}, {.tubelet = tubelet, .dim = 16, .depth = 2, .heads = 2}, 3),
        "videomae_first_step.safetensors");
}

/// Of masked pre-training of clips of `frames` frames.
void expect_pytorchs_pretraining(std::int64_t frames, double decoder_ratio, const std::string& file) {
    const std::array<float, 3> mean{0.485F, 0.456F, 0.406F}, std{0.229F, 0.224F, 0.225F};
    Reference reference = read_reference(file);
    const NamedTensor& pixels = reference.at("pixels");
    const std::int64_t batch = pixels.shape[0];
    const auto device = make_cpu_device(1);
    Graph graph(build_videomae_pretrain(
                    {16, 16, 3 * frames},
                    {.tubelet = {.frames = frames, .depth = 2, .size = 4}, .dim = 16, .depth = 2, .heads = 2},
                    {.ratio = 0.75,
                     .decoder_dim = 8,
                     .decoder_depth = 1,
                     .decoder_heads = 1,
                     .decoder_ratio = decoder_ratio},
                    std),
                *device, DType::f64, batch);
    graph.load(weights_of(graph), "the test");
    const auto input = graph.input(batch).span<double>();
    for (std::size_t i = 0; i < input.size(); ++i) {
        const float pixel = static_cast<float>(std::to_integer<int>(pixels.bytes[i])) / 255.0f;
        input[i] = static_cast<double>((pixel - mean[i % 3]) / std[i % 3]);
    }
    const std::vector<std::int64_t> positions{7, 0, 3};
    const StepContext step{.seed = 5, .epoch = 2, .positions = positions};
    const auto loss = make_mean_square_loss(*device, DType::f64);
    const TensorView differences = graph.forward(batch, step);
    const LossSums sums = loss->forward(differences, {}, graph.output_gradient(batch));
    const double expected = *reinterpret_cast<const double*>(reference.at("loss").bytes.data());
    EXPECT_NEAR(sums.loss / sums.weight, expected, 1e-11 * expected);
    loss->backward({}, 1.0 / static_cast<double>(batch), graph.output_gradient(batch));
    graph.backward(batch, step, {});
    expect_gradients(graph, reference, 2);  // pixels and loss
}

TEST(VideoMaeParity, EveryGradientOfPreTrainingsFirstStepIsPyTorchs) {
    expect_pytorchs_pretraining(4, 0, "videomae_pretrain_first_step.safetensors");
    expect_pytorchs_pretraining(8, 0.5, "videomae_v2_pretrain_first_step.safetensors");
}

}  // namespace
}  // namespace tutti
