#include <algorithm>
#include <cmath>

#include "graph_fixture.hpp"
#include "tests/train/cuda_step_models.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/freezing.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

using test::fill_random;
using test::GradientCheck;

GraphSpec convolution_and_norm(const Shape& image) {
    GraphSpec graph(image);
    Conv2dOptions conv;
    conv.out = 3;
    conv.kernel_h = conv.kernel_w = 2;
    const NodeId a = graph.add("conv", make_conv2d(image, conv), {0});
    const NodeId b = graph.add("bn", make_batch_norm2d(graph.shape(a), {}), {a});
    graph.add("relu", make_relu(graph.shape(b)), {b});
    return graph;
}

GraphSpec norm_alone(std::int64_t features, const BatchNormOptions& options = {}) {
    GraphSpec graph({features});
    graph.add("bn", make_batch_norm2d({features}, options), {0});
    return graph;
}

std::vector<double> values(const Graph& graph, const std::string& name) {
    for (const NamedTensor& tensor : graph.save()) {
        if (tensor.name != name) continue;
        if (tensor.dtype == DType::i64)
            return {static_cast<double>(*reinterpret_cast<const std::int64_t*>(tensor.bytes.data()))};
        const auto* first = reinterpret_cast<const double*>(tensor.bytes.data());
        return {first, first + tensor.shape.count()};
    }
    throw std::out_of_range(name);
}

void set_input(Graph& graph, const std::vector<double>& numbers) {
    const auto features = static_cast<std::size_t>(graph.input(1).count());
    const TensorView input = graph.input(static_cast<std::int64_t>(numbers.size() / features));
    std::copy(numbers.begin(), numbers.end(), input.span<double>().begin());
}

TEST(BatchNorm2dLayer, GradientsOnImagesAgreeWithFiniteDifferences) {
    GradientCheck(convolution_and_norm({4, 3, 2}), 3).expect_gradients(1e-7);
}

TEST(BatchNorm2dLayer, GradientsOnOneImageAgreeWithFiniteDifferences) {
    GradientCheck(convolution_and_norm({4, 3, 2}), 1).expect_gradients(1e-7);
}

TEST(BatchNorm2dLayer, GradientsOnVectorsAgreeWithFiniteDifferences) {
    GraphSpec graph({5});
    graph.add("fc", make_linear({5}, 4, true), {0});
    graph.add("bn", make_batch_norm2d({4}, {}), {1});
    graph.add("fc2", make_linear({4}, 3, true), {2});
    GradientCheck(std::move(graph), 6).expect_gradients(1e-7);
}

// torch.nn.BatchNorm1d(1, momentum=0.5, eps=1e-30) on 1, 3, 5, 7: mean 4, variance 5, unbiased 20/3.
TEST(BatchNorm2dLayer, FollowsTheBatchInTrainingAndUsesThatInEvaluation) {
    const auto device = make_cpu_device(1);
    Graph graph(norm_alone(1, {.eps = 1e-30, .momentum = 0.5}), *device, DType::f64, 4);
    graph.initialize(0);
    set_input(graph, {1, 3, 5, 7});
    const TensorView trained = graph.forward(4, {});
    EXPECT_NEAR(trained.span<double>()[0], -3 / std::sqrt(5.0), 1e-15);
    EXPECT_DOUBLE_EQ(values(graph, "bn.running_mean")[0], 2);
    EXPECT_DOUBLE_EQ(values(graph, "bn.running_var")[0], 0.5 + 10.0 / 3);
    EXPECT_EQ(values(graph, "bn.num_batches_tracked")[0], 1);

    set_input(graph, {2, 4});
    const TensorView evaluated = graph.forward(2, {.phase = Phase::evaluate, .positions = {}});
    EXPECT_NEAR(evaluated.span<double>()[0], 0, 1e-15);
    EXPECT_NEAR(evaluated.span<double>()[1], 2 / std::sqrt(0.5 + 10.0 / 3), 1e-15);
    EXPECT_EQ(values(graph, "bn.num_batches_tracked")[0], 1) << "evaluation follows nothing";
}

TEST(BatchNorm2dLayer, AnEmptyBatchChangesNothing) {
    const auto device = make_cpu_device(1);
    Graph graph(convolution_and_norm({4, 3, 2}), *device, DType::f64, 3);
    graph.initialize(0);
    fill_random(graph.input(3), 1);
    graph.forward(3, {});
    const auto before = graph.save();
    std::vector<std::size_t> order;
    graph.forward(0, {});
    graph.backward(0, {}, [&](std::size_t parameter) { order.push_back(parameter); });
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3}));
    for (const double g : graph.gradient_arena().span<double>()) EXPECT_EQ(g, 0.0);
    const auto after = graph.save();
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].bytes, after[i].bytes);
}

// Means 2 and 8 of two and four values, unbiased variances 2 and 20/3: by their counts 6 and 46/9.
TEST(BatchNorm2dLayer, FollowsSeveralBatchesAtOnceWhereTheCallerAddsUpTheirSums) {
    const auto device = make_cpu_device(1);
    Graph graph(norm_alone(1, {.eps = 1e-30, .momentum = 0.5}), *device, DType::f64, 4);
    graph.initialize(0);
    StepContext step;
    step.defers_tracking = true;
    std::vector<double> sums(static_cast<std::size_t>(graph.batch_statistics().count()));
    for (const std::vector<double>& batch : {std::vector<double>{1, 3}, {}, {5, 7, 9, 11}}) {
        set_input(graph, batch);
        graph.forward(static_cast<std::int64_t>(batch.size()), step);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += graph.batch_statistics().span<double>()[i];
        EXPECT_EQ(values(graph, "bn.running_mean")[0], 0);
        EXPECT_EQ(values(graph, "bn.num_batches_tracked")[0], 0);
    }
    std::ranges::copy(sums, graph.batch_statistics().span<double>().begin());
    graph.track_statistics(step);
    EXPECT_DOUBLE_EQ(values(graph, "bn.running_mean")[0], 3);
    EXPECT_DOUBLE_EQ(values(graph, "bn.running_var")[0], 0.5 + 23.0 / 9);
    EXPECT_EQ(values(graph, "bn.num_batches_tracked")[0], 1);
}

/// A residual network whose batch norms are frozen.
GraphSpec frozen_norms() {
    GraphSpec spec = test::residuals();
    const std::vector<std::string> norms{"stem_norm", "first_norm", "second_norm", "shortcut_norm"};
    freeze(spec, norms, false, "model.freeze");
    freeze_statistics(spec, "model.freeze_statistics");
    return spec;
}

/// Gives all running statistics values of their own.
void set_statistics(Graph& graph) {
    std::vector<NamedTensor> tensors = graph.save();
    double next = 0;
    for (NamedTensor& tensor : tensors) {
        const bool mean = tensor.name.ends_with("running_mean");
        if (!mean && !tensor.name.ends_with("running_var")) continue;
        auto* first = reinterpret_cast<double*>(tensor.bytes.data());
        for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
            first[i] = mean ? std::sin(++next) : 1 + 0.5 * std::sin(++next);
    }
    graph.load(tensors, "a test");
}

TEST(BatchNorm2dLayer, FrozenStatisticsStayAndNormaliseInTrainingAsInEvaluation) {
    const auto device = make_cpu_device(1);
    Graph graph(frozen_norms(), *device, DType::f64, 3);
    graph.initialize(0);
    set_statistics(graph);
    EXPECT_EQ(graph.batch_statistics().count(), 0);
    const auto before = graph.save();
    std::vector<std::vector<double>> outputs;
    for (const Phase phase : {Phase::train, Phase::evaluate}) {
        fill_random(graph.input(3), 1);
        const auto output = graph.forward(3, {.phase = phase, .positions = {}}).span<double>();
        outputs.emplace_back(output.begin(), output.end());
    }
    EXPECT_EQ(outputs[0], outputs[1]);
    const auto after = graph.save();
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].bytes, after[i].bytes);
}

TEST(BatchNorm2dLayer, GradientsThroughFrozenStatisticsAgreeWithFiniteDifferences) {
    GradientCheck check(frozen_norms(), 2);
    set_statistics(check.graph());
    check.expect_gradients(1e-7);
}

TEST(BatchNorm2dLayer, OneValuePerChannelGivesTheBias) {
    const auto device = make_cpu_device(1);
    Graph graph(norm_alone(2), *device, DType::f64, 4);
    graph.initialize(0);
    set_input(graph, {5, -3});
    const TensorView output = graph.forward(1, {});
    EXPECT_EQ(output.span<double>()[0], 0);
    EXPECT_EQ(output.span<double>()[1], 0);
    EXPECT_DOUBLE_EQ(values(graph, "bn.running_mean")[0], 0.5);
    EXPECT_EQ(values(graph, "bn.running_var")[0], 1);
}

TEST(BatchNorm2dLayer, Fp32AgreesWithFp64) {
    const auto device = make_cpu_device(1);
    Graph wide(convolution_and_norm({9, 8, 2}), *device, DType::f64, 5);
    Graph narrow(convolution_and_norm({9, 8, 2}), *device, DType::f32, 5);
    wide.initialize(1);
    narrow.load(wide.save(), "the wide graph");
    fill_random(wide.input(5), 2);
    fill_random(narrow.input(5), 2);
    const TensorView a = wide.forward(5, {}), b = narrow.forward(5, {});
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.count()); ++i)
        EXPECT_NEAR(a.span<double>()[i], b.span<float>()[i], 4e-6);
}

TEST(BatchNorm2dLayer, RefusesWhatHasNoChannels) {
    EXPECT_THROW(make_batch_norm2d({4, 4}, {}), UsageError);
    EXPECT_THROW(make_batch_norm2d({4}, {.eps = 0}), UsageError);
    EXPECT_THROW(make_batch_norm2d({4}, {.momentum = 2}), UsageError);
}

class GraphBuffers : public ::testing::Test {
  protected:
    static constexpr std::size_t counter = 6;  // bn.num_batches_tracked
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    Graph graph_{convolution_and_norm({4, 3, 2}), *device_, DType::f32, 2};
};

TEST_F(GraphBuffers, AreSavedInTheOrderOfPyTorchsStateDict) {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : graph_.save())
        names.push_back(tensor.name + " " + std::string(name_of(tensor.dtype)) + to_string(tensor.shape));
    EXPECT_EQ(names, (std::vector<std::string>{"conv.weight f32[3, 2, 2, 2]", "conv.bias f32[3]",
                                               "bn.weight f32[3]", "bn.bias f32[3]", "bn.running_mean f32[3]",
                                               "bn.running_var f32[3]", "bn.num_batches_tracked i64[]"}));
}

TEST_F(GraphBuffers, LoadGivesBackWhatWasSaved) {
    fill_random(graph_.input(2), 1);
    graph_.forward(2, {});
    const auto saved = graph_.save();
    Graph other(convolution_and_norm({4, 3, 2}), *device_, DType::f32, 2);
    other.load(saved, "memory");
    const auto again = other.save();
    for (std::size_t i = 0; i < saved.size(); ++i) EXPECT_EQ(saved[i].bytes, again[i].bytes) << saved[i].name;
    other.initialize(0);
    EXPECT_NE(other.save()[5].bytes, saved[5].bytes) << "initialize begins anew";
}

TEST_F(GraphBuffers, MayBeCopiedAsOneArena) {
    fill_random(graph_.input(2), 1);
    graph_.forward(2, {});
    Graph other(convolution_and_norm({4, 3, 2}), *device_, DType::f32, 2);
    const TensorView from = graph_.buffer_arena(), to = other.buffer_arena();
    ASSERT_EQ(from.count(), to.count());
    std::copy(from.data, from.data + from.count(), to.data);
    for (std::size_t i = 4; i <= counter; ++i) EXPECT_EQ(graph_.save()[i].bytes, other.save()[i].bytes);
}

TEST_F(GraphBuffers, OnlyTheCounterMayBeAbsent) {
    fill_random(graph_.input(2), 1);
    graph_.forward(2, {});
    auto tensors = graph_.save();
    tensors.pop_back();
    graph_.load(tensors, "weights.h5");
    EXPECT_EQ(graph_.save()[counter].bytes, std::vector<std::byte>(8)) << "counts from 0";
    tensors.pop_back();
    try {
        graph_.load(tensors, "weights.h5");
        FAIL() << "must throw";
    } catch (const DataError& error) {
        EXPECT_NE(std::string(error.what()).find("missing: bn.running_var"), std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace tutti
