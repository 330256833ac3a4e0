#include "tutti/model/loss.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>

namespace tutti {
namespace {

TEST(SoftmaxCrossEntropy, SmoothsTheTargetOnlyWhenAsked) {
    const auto device = make_cpu_device(1);
    std::array<double, 2> logits{0, std::log(3.0)}, gradient{};
    std::array<std::int64_t, 1> label{1};
    const TensorView view{reinterpret_cast<std::byte*>(gradient.data()), DType::f64, {1, 2}};
    const TensorView given{reinterpret_cast<std::byte*>(logits.data()), DType::f64, {1, 2}};
    const auto run = [&](Loss& loss) {
        const LossSums sums = loss.forward(given, view_of(std::span(label)), view);
        loss.backward(view_of(std::span(label)), 1, view);
        return sums.loss;
    };
    EXPECT_NEAR(run(*make_softmax_cross_entropy(*device, DType::f64)), std::log(4.0 / 3), 1e-15);
    EXPECT_NEAR(gradient[1], -0.25, 1e-15);
    EXPECT_NEAR(run(*make_softmax_cross_entropy(*device, DType::f64, 0.2)),
                0.1 * std::log(4.0) + 0.9 * std::log(4.0 / 3), 1e-15);
    EXPECT_NEAR(gradient[1], -0.15, 1e-15);
}

TEST(SoftmaxCrossEntropy, WeightsClassesAndStillCountsSamples) {
    const auto device = make_cpu_device(1);
    std::array<double, 2> logits{0, std::log(3.0)}, gradient{};
    std::array<std::int64_t, 1> label{1};
    const TensorView view{reinterpret_cast<std::byte*>(gradient.data()), DType::f64, {1, 2}};
    const TensorView given{reinterpret_cast<std::byte*>(logits.data()), DType::f64, {1, 2}};
    auto weights = std::make_optional(std::array<double, 2>{0.5, 4});
    const auto loss = make_softmax_cross_entropy(*device, DType::f64, 0, *weights);
    weights->fill(7);  // they were copied
    const LossSums sums = loss->forward(given, view_of(std::span(label)), view);
    EXPECT_NEAR(sums.loss, 4 * std::log(4.0 / 3), 1e-15);
    EXPECT_EQ(sums.weight, 1);
    EXPECT_TRUE(loss->weight_is_sample_count());
    loss->backward(view_of(std::span(label)), 0.5, view);
    EXPECT_NEAR(gradient[0], 0.5, 1e-15);
    EXPECT_NEAR(gradient[1], -0.5, 1e-15);
}

}  // namespace
}  // namespace tutti
