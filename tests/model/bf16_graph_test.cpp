// Whole models with products in bf16, step by step against fp32 from the same weights on the same batch.
#include <cstring>

#include "graph_fixture.hpp"
#include "support/bf16_refusal.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti::test {
namespace {

constexpr Arithmetic bf16_products{DType::f32, DType::bf16};
constexpr std::int64_t classes = 10;

constexpr double loss_tolerance = 1e-2;
/// Norm-relative, per parameter. Where the network is smooth, rounding changes the gradients by little more
/// than its own size. ReLU and max-pool are not: near their kinks the rounded value falls on the other side
/// and the whole gradient of that element moves. PyTorch with inputs rounded in the same places differs from
/// its own fp32 by 3 to 8 % on such batches, too.
constexpr double smooth_tolerance = 2e-2, kinks_tolerance = 0.12;

/// Images whose classes can be learnt: noise on a pattern of the label.
struct Batch {
    std::vector<float> pixels;
    std::vector<std::int64_t> labels;

    Batch(const Shape& image, std::int64_t n, unsigned seed) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<float> noise(-1, 1);
        for (std::int64_t i = 0; i < n; ++i) {
            labels.push_back(static_cast<std::int64_t>(random() % classes));
            const double frequency = 0.02 * static_cast<double>(labels.back() + 1);
            for (std::int64_t k = 0; k < image.count(); ++k)
                pixels.push_back(noise(random) +
                                 static_cast<float>(std::sin(frequency * static_cast<double>(k))));
        }
    }
};

class Model {
  public:
    Model(GraphSpec spec, Device& device, Arithmetic arithmetic, std::int64_t largest_batch)
        : graph_(std::move(spec), device, arithmetic, largest_batch),
          loss_(make_softmax_cross_entropy(device, graph_.compute())) {
        graph_.initialize(7);
    }

    /// The mean loss; the gradients are in the arena then.
    double step(Batch batch) {
        const auto n = static_cast<std::int64_t>(batch.labels.size());
        std::vector<std::int64_t> positions;
        for (std::int64_t i = 0; i < n; ++i) positions.push_back(i);
        const StepContext context{Phase::train, 0, 0, positions};
        std::copy(batch.pixels.begin(), batch.pixels.end(), graph_.input(n).span<float>().begin());
        const TensorView labels = view_of(std::span(batch.labels)), logits = graph_.forward(n, context);
        const LossSums sums = loss_->forward(logits, labels, graph_.output_gradient(n));
        loss_->backward(labels, 1 / sums.weight, graph_.output_gradient(n));
        graph_.backward(n, context, {});
        return sums.loss / sums.weight;
    }

    void descend(float rate) {
        const auto weights = graph_.parameter_arena().span<float>();
        const auto gradients = graph_.gradient_arena().span<float>();
        for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= rate * gradients[i];
    }

    Graph& graph() { return graph_; }

  private:
    Graph graph_;
    std::unique_ptr<Loss> loss_;
};

/// ‖a − b‖ / ‖b‖ of one parameter's gradient.
double relative_difference(const Parameter& parameter, Graph& a, Graph& b) {
    const auto values = a.gradient_arena().span<float>(), expected = b.gradient_arena().span<float>();
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < parameter.count; ++i) {
        const auto at = static_cast<std::size_t>(parameter.offset + i);
        difference += std::pow(static_cast<double>(values[at]) - static_cast<double>(expected[at]), 2);
        norm += std::pow(static_cast<double>(expected[at]), 2);
    }
    return std::sqrt(difference / norm);
}

class Bf16Graph : public ::testing::Test {
  protected:
    void SetUp() override {
        try {
            device_->ops(bf16_products);
        } catch (const UsageError& error) {
            refused_bf16(Bf16Need::products, error.what());
        }
    }

    /// Steps of SGD in fp32; before each, bf16 gets fp32's weights.
    template <class Build>
    void expect_steps_like_fp32(const Build& build, double gradient_tolerance) {
        const Shape image{28, 28, 1};
        Model fp32(build(image), *device_, DType::f32, 32), bf16(build(image), *device_, bf16_products, 32);
        double largest_loss = 0, largest_gradient = 0;
        for (unsigned step = 0; step < 8; ++step) {
            const Batch batch(image, step == 3 ? 5 : 32, step + 1);  // one batch is a tail
            bf16.graph().load(fp32.graph().save(), "the weights in fp32");
            const double expected = fp32.step(batch), loss = bf16.step(batch);
            EXPECT_NEAR(loss, expected, loss_tolerance * expected) << "step " << step;
            EXPECT_NE(loss, expected) << "step " << step << " was computed in fp32";
            largest_loss = std::max(largest_loss, std::abs(loss - expected) / expected);
            for (const Parameter& parameter : fp32.graph().parameters()) {
                const double difference = relative_difference(parameter, bf16.graph(), fp32.graph());
                EXPECT_LE(difference, gradient_tolerance) << "step " << step << ", " << parameter.name;
                largest_gradient = std::max(largest_gradient, difference);
            }
            fp32.descend(0.05f);
        }
        RecordProperty("largest_loss_difference", std::to_string(largest_loss));
        RecordProperty("largest_gradient_difference", std::to_string(largest_gradient));
    }

    std::unique_ptr<Device> device_ = make_cpu_device(1);
};

TEST_F(Bf16Graph, LenetFollowsFp32StepByStep) {
    expect_steps_like_fp32([](const Shape& image) { return build_lenet(image, classes); }, kinks_tolerance);
}

TEST_F(Bf16Graph, MlpFollowsFp32StepByStep) {
    const std::vector<std::int64_t> hidden{64, 48};
    expect_steps_like_fp32([&](const Shape& image) { return build_mlp(image, hidden, classes); },
                           kinks_tolerance);
}

TEST_F(Bf16Graph, VitFollowsFp32StepByStep) {
    VitOptions options;
    options.dim = 32;
    options.depth = 2;
    options.heads = 2;
    options.patch = 7;
    expect_steps_like_fp32([&](const Shape& image) { return build_vit(image, options, classes); },
                           smooth_tolerance);
}

/// Values and gradients of batch normalisations and the sum are bf16, too. No resnet18: the gradients of its
/// first layers differ by 0.3 to 0.5 between bf16 and fp32 on such batches (0.1 to 0.4 in PyTorch with
/// autocast), where nothing could be told from an error.
TEST_F(Bf16Graph, AResidualBlockFollowsFp32StepByStep) {
    const auto convolution = [](std::int64_t out, std::int64_t kernel, std::int64_t stride) {
        Conv2dOptions options;
        options.out = out;
        options.kernel_h = options.kernel_w = kernel;
        options.stride_h = options.stride_w = stride;
        options.padding_h = options.padding_w = kernel / 2;
        options.bias = false;
        return options;
    };
    const auto build = [&](const Shape& image) {
        const Shape wide{28, 28, 32}, half{14, 14, 64};
        GraphSpec spec(image);
        spec.add("conv1", make_conv2d(image, convolution(32, 3, 1)), {0});
        spec.add("bn1", make_batch_norm2d(wide, {}), {1});
        spec.add("relu1", make_relu(wide), {2});
        spec.add("conv2", make_conv2d(wide, convolution(64, 3, 2)), {3});
        spec.add("bn2", make_batch_norm2d(half, {}), {4});
        spec.add("relu2", make_relu(half), {5});
        spec.add("conv3", make_conv2d(half, convolution(64, 3, 1)), {6});
        spec.add("bn3", make_batch_norm2d(half, {}), {7});
        spec.add("downsample", make_conv2d(wide, convolution(64, 1, 2)), {3});
        spec.add("sum", make_add(half), {8, 9});
        spec.add("relu3", make_relu(half), {10});
        spec.add("pool", make_adaptive_avg_pool2d(half, 1, 1), {11});
        spec.add("flatten", make_flatten({1, 1, 64}), {12});
        spec.add("fc", make_linear({64}, classes, true), {13});
        return spec;
    };
    expect_steps_like_fp32(build, kinks_tolerance);
}

TEST_F(Bf16Graph, ImagesBetweenLayersTakeHalfOfTheMemory) {
    if (device_->ops(bf16_products).images() == DType::f32)
        return refused_bf16(Bf16Need::images, "the matrix unit's products take fp32");
    const auto build = [] { return build_resnet("resnet18", {28, 28, 1}, "cifar", classes); };
    Graph graph(build(), *device_, bf16_products, 4), plain(build(), *device_, DType::f32, 4);
    EXPECT_EQ(graph.input(4).dtype, DType::f32);
    EXPECT_EQ(graph.parameter_arena().dtype, DType::f32);
    EXPECT_EQ(graph.gradient_arena().dtype, DType::f32);
    EXPECT_LT(graph.memory().activations, plain.memory().activations * 51 / 100);
}

TEST_F(Bf16Graph, WeightsGradientsAndActivationsStayFp32) {
    Graph graph(build_lenet({28, 28, 1}, classes), *device_, bf16_products, 4);
    Graph plain(build_lenet({28, 28, 1}, classes), *device_, DType::f32, 4);
    EXPECT_EQ(graph.compute(), DType::f32);
    EXPECT_EQ(graph.parameter_arena().dtype, DType::f32);
    EXPECT_EQ(graph.gradient_arena().dtype, DType::f32);
    EXPECT_EQ(graph.input(4).dtype, DType::f32);
    EXPECT_EQ(graph.memory().activations, plain.memory().activations);
    graph.initialize(3);
    plain.initialize(3);
    const auto weights = graph.parameter_arena(), expected = plain.parameter_arena();
    EXPECT_EQ(std::memcmp(weights.data, expected.data, expected.bytes()), 0);
}

}  // namespace
}  // namespace tutti::test
