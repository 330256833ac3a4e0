// Polls within long operations: there are some, and no result knows of them.

#include "host_progress.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "parallel.hpp"
#include "test_tensor.hpp"
#include "tutti/device/device.hpp"

namespace tutti::test {
namespace {

using Bytes = std::vector<std::byte>;

/// A long operation: runs once, gives all that it has written.
struct LongOperation {
    std::string name;
    std::function<Bytes(Ops&, DType)> run;
};

Bytes joined(std::initializer_list<const TestTensor*> tensors) {
    Bytes all;
    for (const TestTensor* tensor : tensors)
        all.insert(all.end(), tensor->bytes().begin(), tensor->bytes().end());
    return all;
}

constexpr std::int64_t many = 1 << 21;

std::vector<LongOperation> long_operations() {
    return {
        {"conv2d",
         [](Ops& ops, DType type) {
             const Conv2dShape shape{.height = 28,
                                     .width = 28,
                                     .in = 16,
                                     .out = 32,
                                     .kernel_h = 3,
                                     .kernel_w = 3,
                                     .padding_h = 1,
                                     .padding_w = 1};
             TestTensor x = TestTensor::random(type, {64, 28, 28, 16}, 1);
             TestTensor w = TestTensor::random(type, {32, 3, 3, 16}, 2);
             TestTensor b = TestTensor::random(type, {32}, 3);
             TestTensor y(type, {64, 28, 28, 32}), dx(type, {64, 28, 28, 16}), dw(type, {32, 3, 3, 16}),
                 db(type, {32});
             const auto op = ops.conv2d(shape);
             op->forward(x.view(), w.view(), b.view(), y.view());
             op->backward(x.view(), w.view(), y.view(), dx.view(), dw.view(), db.view());
             return joined({&y, &dx, &dw, &db});
         }},
        {"linear",
         [](Ops& ops, DType type) {
             TestTensor x = TestTensor::random(type, {512, 512}, 1),
                        w = TestTensor::random(type, {512, 512}, 2), b = TestTensor::random(type, {512}, 3);
             TestTensor y(type, {512, 512}), dx(type, {512, 512}), dw(type, {512, 512}), db(type, {512});
             const auto op = ops.linear({.in = 512, .out = 512});
             op->forward(x.view(), w.view(), b.view(), y.view());
             op->backward(x.view(), w.view(), y.view(), dx.view(), dw.view(), db.view());
             return joined({&y, &dx, &dw, &db});
         }},
        {"relu",
         [](Ops& ops, DType type) {
             TestTensor x = TestTensor::random(type, {many}, 1), y(type, {many});
             ops.relu_forward(x.view(), y.view());
             return joined({&y});
         }},
        {"batch_norm",
         [](Ops& ops, DType type) {
             TestTensor x = TestTensor::random(type, {many / 16, 16}, 1),
                        shift = TestTensor::random(type, {16}, 2);
             TestTensor moments(DType::f64, {33});
             ops.batch_norm({.channels = 16})->moments(x.view(), shift.view(), moments.view());
             return joined({&moments});
         }},
        {"sgd",
         [](Ops& ops, DType type) {
             TestTensor gradient = TestTensor::random(type, {many}, 1),
                        parameter = TestTensor::random(type, {many}, 2);
             ops.sgd({.lr = 0.1, .weight_decay = 0.01}, gradient.view(), parameter.view(), {});
             return joined({&parameter});
         }},
        {"sum_of_squares",
         [](Ops& ops, DType type) {
             TestTensor x = TestTensor::random(type, {many}, 1), sum(DType::f64, {1});
             ops.sum_of_squares(x.view(), sum.view());
             return joined({&sum});
         }},
    };
}

class HostProgressTest : public testing::TestWithParam<std::pair<DType, int>> {
  protected:
    const DType type_ = GetParam().first;
    const std::unique_ptr<Device> device_ = make_cpu_device(GetParam().second);
    Ops& ops_ = device_->ops(type_);
};

INSTANTIATE_TEST_SUITE_P(, HostProgressTest,
                         testing::Values(std::pair(DType::f32, 1), std::pair(DType::f32, 2),
                                         std::pair(DType::f64, 1)),
                         [](const auto& row) {
                             return std::string(name_of(row.param.first)) + "_threads" +
                                    std::to_string(row.param.second);
                         });

TEST_P(HostProgressTest, long_operations_poll_on_their_own_thread_and_their_results_do_not_show_it) {
    for (const LongOperation& operation : long_operations()) {
        const Bytes expected = operation.run(ops_, type_);
        int polls = 0, elsewhere = 0;
        const auto here = std::this_thread::get_id();
        device_->set_progress([&] { ++(std::this_thread::get_id() == here ? polls : elsewhere); });
        const Bytes polled = operation.run(ops_, type_);
        device_->set_progress({});
        EXPECT_GT(polls, 0) << operation.name;
        EXPECT_EQ(elsewhere, 0) << operation.name;
        EXPECT_EQ(polled, expected) << operation.name;
    }
}

TEST_P(HostProgressTest, polls_are_half_a_millisecond_apart_at_least) {
    using Clock = std::chrono::steady_clock;
    std::vector<Clock::time_point> polls;
    device_->set_progress([&] { polls.push_back(Clock::now()); });
    long_operations().front().run(ops_, type_);
    EXPECT_GT(polls.size(), 1U);  // some billions of operations
    for (std::size_t i = 1; i < polls.size(); ++i)
        EXPECT_GE(polls[i] - polls[i - 1], std::chrono::microseconds(500));
}

TEST_P(HostProgressTest, nobody_is_called_any_more) {
    int polls = 0;
    device_->set_progress([&] { ++polls; });
    device_->set_progress({});
    for (const LongOperation& operation : long_operations()) operation.run(ops_, type_);
    EXPECT_EQ(polls, 0);
}

TEST_P(HostProgressTest, what_a_poll_throws_leaves_the_operation) {
    for (const LongOperation& operation : long_operations()) {
        int polls = 0;
        device_->set_progress([&] {
            ++polls;
            throw std::runtime_error("a peer is gone");
        });
        EXPECT_THROW(operation.run(ops_, type_), std::runtime_error) << operation.name;
        device_->set_progress({});
        EXPECT_EQ(polls, 1) << operation.name;
    }
}

TEST(UnevenPartsOf, need_no_divisor) {
    constexpr std::int64_t block = std::int64_t{16} << 20;  // four of them are worth a part
    EXPECT_EQ(uneven_parts_of(4, block, 1, 1), 1);
    EXPECT_EQ(uneven_parts_of(67, block, 1, 1), 16);
    EXPECT_EQ(parts_of(67, block, 1, 1), 1);
    EXPECT_EQ(uneven_parts_of(67, block, 2, 2), 8);
    EXPECT_EQ(uneven_parts_of(67, 8 * block, 2, 2), 33);
    EXPECT_EQ(uneven_parts_of(0, block, 1, 1), 1);
}

TEST(PartsOf, are_equal_long_enough_and_of_enough_rows) {
    const auto device = make_cpu_device(1);
    constexpr std::int64_t million = 1 << 20;
    EXPECT_EQ(parts_of(256, million, 128), 2);  // rows bind
    EXPECT_EQ(parts_of(256, million, 1), 4);    // work binds
    EXPECT_EQ(parts_of(8, 16 * million, 4), 2);
    EXPECT_EQ(parts_of(255, million, 1), 3);  // only equal parts
    EXPECT_EQ(parts_of(251, million, 1), 1);  // a prime number
    EXPECT_EQ(parts_of(4, 1, 1), 1);          // short
    EXPECT_EQ(parts_of(0, 0, 0), 1);
    const auto two = make_cpu_device(2);
    EXPECT_EQ(parts_of(256, million, 1), 2);  // threads are for shortening, not for more parts
}

}  // namespace
}  // namespace tutti::test
