// Transfers go on within layers, without a call of anybody's outside of them.

#include <gtest/gtest.h>

#include "mpi_environment.hpp"
#include "tutti/device/device.hpp"

namespace tutti::test {
namespace {

TEST(long_layer, an_all_reduce_ends_within_layers_that_poll) {
    const auto world = session().world(30);
    const auto device = make_cpu_device(1);
    Ops& ops = device->ops(DType::f32);
    const Shape square{512, 512};
    const auto matrix = [&] { return device->allocate(512 * 512 * sizeof(float), "a test"); };
    const Buffer x = matrix(), weight = matrix(), y = matrix(), dx = matrix(), dweight = matrix();
    const auto view = [&](const Buffer& buffer) { return buffer.view(0, DType::f32, square); };
    const auto layer = ops.linear({.in = 512, .out = 512, .bias = false});

    constexpr std::int64_t count = 1 << 20;
    std::vector<float> gradients(count, static_cast<float>(world->rank() + 1));
    int polls = 0;
    bool done = false;
    Work work = world->all_reduce(view_of(std::span(gradients)), ReduceOp::sum);
    device->set_progress([&] {
        ++polls;
        done = work.test();
    });
    for (int i = 0; i < 100'000 && !done; ++i)
        layer->backward(view(x), view(weight), view(y), view(dx), view(dweight), {});
    device->set_progress({});
    EXPECT_TRUE(done);
    EXPECT_GT(polls, 0);
    const auto ranks = static_cast<float>(world->size());
    EXPECT_EQ(gradients.front(), ranks * (ranks + 1) / 2);
    EXPECT_EQ(gradients.back(), ranks * (ranks + 1) / 2);
}

}  // namespace
}  // namespace tutti::test
