#include "sgd.hpp"

#include "optimizer_cases.hpp"

namespace tutti::test {
namespace {

class CudaSgdTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaSgdTest);

TEST_P(CudaSgdTest, has_the_bits_of_the_cpu) {
    for (const cuda::SgdSettings& settings :
         {cuda::SgdSettings{}, cuda::SgdSettings{0.9, 0.1, false}, cuda::SgdSettings{0.9, 1, false},
          cuda::SgdSettings{0.9, 0, true}}) {
        OptimizerCase c;
        auto p = c.random(1), cpu_p = p, buffer = c.zeros(), cpu_buffer = buffer;
        const TensorView buffer_view = settings.momentum != 0 ? buffer.view() : TensorView{};
        for (c.state.step = 1; c.state.step <= 2; ++c.state.step) {
            auto g = c.random(2 + static_cast<unsigned>(c.state.step));
            cuda::sgd(settings, &c.state, c.view(), g.view(), p.view(), buffer_view, stream_);
            for (const auto& segment : c.segments)
                cpu_.sgd({.lr = c.state.learning_rate * segment.lr_scale,
                          .momentum = settings.momentum,
                          .dampening = settings.dampening,
                          .weight_decay = segment.weight_decay,
                          .nesterov = settings.nesterov,
                          .first_step = c.state.step == 1},
                         c.slice(g.view(), segment), c.slice(cpu_p.view(), segment),
                         c.slice(cpu_buffer.view(), segment));
        }
        expect_equal(p, cpu_p.values());
        expect_equal(buffer, cpu_buffer.values());
    }
}

TEST_P(CudaSgdTest, leaves_a_skipped_step_out) {
    OptimizerCase c;
    c.state.skip = 1;
    auto p = c.random(1), g = c.random(2), buffer = c.zeros();
    const auto before = p.values();
    cuda::sgd({.momentum = 0.9}, &c.state, c.view(), g.view(), p.view(), buffer.view(), stream_);
    expect_equal(p, before);
    expect_equal(buffer, c.zeros().values());
}

}  // namespace
}  // namespace tutti::test
