#include "segment_updates.hpp"

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaSegmentUpdatesTest : public CudaKernelTest {
  protected:
    /// Calls update(gradient, parameter, first, second, results…) on the GPU's and the CPU's copies of the
    /// same numbers, aligned to vectors and not, three times, and compares all four bit by bit.
    template <class OnGpu, class OnCpu>
    void expect_same(const OnGpu& on_gpu, const OnCpu& on_cpu) {
        for (const std::int64_t count : {1, 8, 301})
            for (const bool aligned : {true, false}) {
                std::vector<TestTensor> gpu;
                for (unsigned seed = 0; seed < 4; ++seed) {
                    auto values = TestTensor::random(DType::f32, {count + 1}, seed).values();
                    if (seed > 1)  // second moments are not negative
                        for (double& value : values) value *= value;
                    gpu.emplace_back(DType::f32, Shape{count + 1}, values);
                }
                std::vector<TestTensor> cpu = gpu;
                const auto part = [&](TestTensor& tensor) {
                    const TensorView all = tensor.view();
                    return aligned ? all : without_first(all);
                };
                for (std::int64_t step = 1; step <= 3; ++step) {
                    on_gpu(step, part(gpu[0]), part(gpu[1]), part(gpu[2]), part(gpu[3]));
                    on_cpu(step, part(cpu[0]), part(cpu[1]), part(cpu[2]), part(cpu[3]));
                }
                for (std::size_t i = 0; i < 4; ++i) expect_equal(gpu[i], cpu[i].values());
            }
    }
};
TUTTI_KERNEL_TEST(CudaSegmentUpdatesTest);

TEST_P(CudaSegmentUpdatesTest, sgd_has_the_bits_of_the_cpu) {
    for (const double momentum : {0.0, 0.9})
        for (const bool nesterov : {false, true}) {
            SgdStep settings{.lr = 0.1,
                             .momentum = momentum,
                             .dampening = 0.25,
                             .weight_decay = 0.01,
                             .nesterov = nesterov};
            const auto at = [&](std::int64_t step) {
                settings.first_step = step == 1;
                return settings;
            };
            expect_same(
                [&](auto step, auto g, auto p, auto buffer, auto) {
                    cuda::sgd(at(step), g, p, buffer, stream_);
                },
                [&](auto step, auto g, auto p, auto buffer, auto) { cpu_.sgd(at(step), g, p, buffer); });
        }
}

TEST_P(CudaSegmentUpdatesTest, adam_has_the_bits_of_the_cpu) {
    for (const bool decoupled : {false, true}) {
        AdamStep settings{.lr = 1e-2, .weight_decay = 0.05, .decoupled = decoupled};
        const auto at = [&](std::int64_t step) {
            settings.step = step;
            return settings;
        };
        expect_same(
            [&](auto step, auto g, auto p, auto m, auto v) { cuda::adam(at(step), g, p, m, v, stream_); },
            [&](auto step, auto g, auto p, auto m, auto v) { cpu_.adam(at(step), g, p, m, v); });
    }
}

TEST_P(CudaSegmentUpdatesTest, adadelta_has_the_bits_of_the_cpu) {
    const AdadeltaStep settings{.lr = 0.5, .weight_decay = 0.01};
    expect_same([&](auto, auto g, auto p, auto v, auto u) { cuda::adadelta(settings, g, p, v, u, stream_); },
                [&](auto, auto g, auto p, auto v, auto u) { cpu_.adadelta(settings, g, p, v, u); });
}

TEST_P(CudaSegmentUpdatesTest, lamb_has_the_bits_of_the_cpu) {
    LambStep settings{.weight_decay = 0.01};
    TestTensor squares(DType::f64, {2}, {3, 0.5});
    const auto at = [&](std::int64_t step) {
        settings.step = step;
        return settings;
    };
    expect_same(
        [&](auto step, auto g, auto p, auto m, auto v) {
            cuda::lamb_direction(at(step), g, p, m, v, g, stream_);
            cuda::lamb_apply(0.01, squares.view(), g, p, stream_);
        },
        [&](auto step, auto g, auto p, auto m, auto v) {
            cpu_.lamb_direction(at(step), g, p, m, v, g);
            cpu_.lamb_apply(0.01, squares.view(), g, p);
        });
}

}  // namespace
}  // namespace tutti::test
