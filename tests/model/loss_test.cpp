#include "tutti/model/loss.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

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

}  // namespace
}  // namespace tutti
