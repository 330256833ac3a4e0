// A preemption notice comes in the middle of a product, and may change nothing.

#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <vector>

#include "backend.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/device/device.hpp"

namespace tutti::test {
namespace {

/// SIGUSR1 for this process five thousand times a second.
class ManySignals {
  public:
    ManySignals() {
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGUSR1;
        if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) return;
        const timespec period{0, 200'000};
        const itimerspec times{period, period};
        runs_ = timer_settime(timer_, 0, &times, nullptr) == 0;
    }
    ~ManySignals() { timer_delete(timer_); }
    ManySignals(const ManySignals&) = delete;
    ManySignals& operator=(const ManySignals&) = delete;

    bool run() const { return runs_; }

  private:
    timer_t timer_{};
    bool runs_ = false;
};

class StopSignalProductsTest : public KernelTest {};
TUTTI_TEST_ON(StopSignalProductsTest, backends);

TEST_P(StopSignalProductsTest, no_bit_depends_on_when_signals_come) {
    const auto device = make_cpu_device(GetParam().threads);  // whose threads leave signals to this one
    constexpr std::int64_t size = 256;                        // for which oneDNN takes its generated products
    auto op = ops_->linear({.in = size, .out = size});
    auto x = random({size, size}, 1), weight = random({size, size}, 2), bias = random({size}, 3);
    auto y = tensor({size, size}), dx = tensor({size, size}), dweight = tensor({size, size}),
         dbias = tensor({size});
    const auto step = [&] {
        op->forward(x.view(), weight.view(), bias.view(), y.view());
        op->backward(x.view(), weight.view(), y.view(), dx.view(), dweight.view(), dbias.view());
        std::vector<double> all;
        for (const TestTensor* result : {&y, &dx, &dweight, &dbias}) {
            const std::vector<double> values = result->values();
            all.insert(all.end(), values.begin(), values.end());
        }
        return all;
    };
    const auto undisturbed = step();
    const StopSignal signals;
    const ManySignals many;
    ASSERT_TRUE(many.run());
    for (int repetition = 0; repetition < 50; ++repetition) ASSERT_EQ(step(), undisturbed);
    EXPECT_EQ(StopSignal::pending(), SIGUSR1);
}

}  // namespace
}  // namespace tutti::test
