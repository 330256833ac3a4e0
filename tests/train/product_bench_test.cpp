#include "tutti/train/product_bench.hpp"

#include <gtest/gtest.h>

#include "support/bf16_refusal.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

TEST(ProductBench, EachRunAddsRepetitionsOfEachSize) {
    const auto device = make_cpu_device(1);
    const std::int64_t sizes[] = {16, 48, 5};
    ProductBench bench(*device, DType::f32, sizes);
    bench.run(3);
    bench.run(2);
    ASSERT_EQ(bench.times().size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(bench.times()[i].n, sizes[i]);
        EXPECT_EQ(bench.times()[i].seconds.size(), 5u);
        EXPECT_GT(bench.times()[i].rate(), 0);
    }
}

void expect_a_rate_in(const Arithmetic& arithmetic) {
    const auto device = make_cpu_device(1);
    const std::int64_t sizes[] = {32};
    ProductBench bench(*device, arithmetic, sizes);
    bench.run(1);
    EXPECT_GT(bench.times()[0].rate(), 0);
}

TEST(ProductBench, TakesDoublePrecision) {
    expect_a_rate_in(DType::f64);
}

TEST(ProductBench, TakesMixedPrecision) {
    try {
        expect_a_rate_in({DType::f32, DType::bf16});
    } catch (const UsageError& error) {
        test::refused_bf16(test::Bf16Need::products, error.what());
    }
}

TEST(ProductTimes, TheRateIsThatOfTheMedian) {
    EXPECT_DOUBLE_EQ((ProductTimes{10, {4, 2, 1000}}.rate()), 2000.0 / 4);
    EXPECT_EQ((ProductTimes{10, {}}.rate()), 0);
}

}  // namespace
}  // namespace tutti
