#include "adam.hpp"

#include "optimizer_cases.hpp"

namespace tutti::test {
namespace {

class CudaAdamTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaAdamTest);

TEST_P(CudaAdamTest, has_the_bits_of_the_cpu) {
    for (const bool decoupled : {true, false}) {
        OptimizerCase c;
        auto p = c.random(1), cpu_p = p, m = c.zeros(), cpu_m = m, v = c.zeros(), cpu_v = v;
        for (c.state.step = 1; c.state.step <= 2; ++c.state.step) {
            auto g = c.random(2 + static_cast<unsigned>(c.state.step));
            cuda::adam({.decoupled = decoupled}, &c.state, c.view(), g.view(), p.view(), m.view(), v.view(),
                       stream_);
            for (const auto& segment : c.segments)
                cpu_.adam({.lr = c.state.learning_rate * segment.lr_scale,
                           .weight_decay = segment.weight_decay,
                           .step = c.state.step,
                           .decoupled = decoupled},
                          c.slice(g.view(), segment), c.slice(cpu_p.view(), segment),
                          c.slice(cpu_m.view(), segment), c.slice(cpu_v.view(), segment));
        }
        expect_equal(p, cpu_p.values());
        expect_equal(m, cpu_m.values());
        expect_equal(v, cpu_v.values());
    }
}

TEST_P(CudaAdamTest, leaves_a_skipped_step_out) {
    OptimizerCase c;
    c.state.skip = 1;
    auto p = c.random(1), g = c.random(2), m = c.zeros(), v = c.zeros();
    const auto before = p.values();
    cuda::adam({}, &c.state, c.view(), g.view(), p.view(), m.view(), v.view(), stream_);
    expect_equal(p, before);
}

}  // namespace
}  // namespace tutti::test
