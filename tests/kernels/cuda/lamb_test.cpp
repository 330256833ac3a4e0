#include "lamb.hpp"

#include "optimizer_cases.hpp"

namespace tutti::test {
namespace {

class CudaLambTest : public CudaKernelTest {
  protected:
    void run(OptimizerCase& c, TestTensor& g, TestTensor& p, TestTensor& m, TestTensor& v) {
        TestTensor squares(DType::f64, {static_cast<std::int64_t>(c.segments.size()), 2});
        TestTensor workspace(DType::f64, {cuda::lamb_workspace(c.view().count)});
        cuda::lamb({}, &c.state, c.view(), g.view(), p.view(), m.view(), v.view(), squares.view(),
                   workspace.view(), stream_);
    }
};
TUTTI_KERNEL_TEST(CudaLambTest);

/// The norms are summed along another order than the CPU's, in double: a rate may be rounded the other way.
constexpr double lamb_tolerance = 1e-6;

TEST_P(CudaLambTest, agrees_with_the_cpu) {
    OptimizerCase c;
    auto p = c.random(1), cpu_p = p, m = c.zeros(), cpu_m = m, v = c.zeros(), cpu_v = v;
    for (c.state.step = 1; c.state.step <= 2; ++c.state.step) {
        auto g = c.random(2 + static_cast<unsigned>(c.state.step)), cpu_g = g;
        run(c, g, p, m, v);
        for (const auto& segment : c.segments) {
            const auto update = c.slice(cpu_g.view(), segment), weights = c.slice(cpu_p.view(), segment);
            std::array<double, 2> sums{};
            cpu_.lamb_direction({.weight_decay = segment.weight_decay, .step = c.state.step}, update, weights,
                                c.slice(cpu_m.view(), segment), c.slice(cpu_v.view(), segment), update);
            cpu_.sum_of_squares(weights, view_of(std::span(sums).first(1)));
            cpu_.sum_of_squares(update, view_of(std::span(sums).last(1)));
            cpu_.lamb_apply(c.state.learning_rate * segment.lr_scale, view_of(std::span(sums)), update,
                            weights);
        }
    }
    expect_near(p.values(), cpu_p.values(), lamb_tolerance);
    expect_near(m.values(), cpu_m.values(), lamb_tolerance);
    expect_near(v.values(), cpu_v.values(), lamb_tolerance);
}

TEST_P(CudaLambTest, parameters_that_are_zero_move_with_ratio_one) {
    OptimizerCase c;
    c.segments = {{0, 37, 0, 1}};
    c.chunks = cuda::cut_into_chunks(c.segments);
    c.size = 37;
    auto p = c.zeros(), g = c.random(1), m = c.zeros(), v = c.zeros();
    run(c, g, p, m, v);
    for (std::size_t i = 0; i < 37; ++i) EXPECT_NEAR(p.get(i), -c.state.learning_rate * g.get(i), 1e-6) << i;
}

TEST_P(CudaLambTest, leaves_a_skipped_step_out) {
    OptimizerCase c;
    c.state.skip = 1;
    auto p = c.random(1), g = c.random(2), m = c.zeros(), v = c.zeros();
    const auto before = p.values();
    run(c, g, p, m, v);
    expect_equal(p, before);
}

}  // namespace
}  // namespace tutti::test
