#include "tutti/train/memory_bench.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace tutti {
namespace {

TEST(MemoryBench, counts_what_a_pass_reads_and_writes) {
    const auto device = make_cpu_device(1);
    for (const DType dtype : {DType::f32, DType::f64}) {
        constexpr std::int64_t bytes = std::int64_t{64} << 20;
        MemoryBench bench(*device, dtype, bytes);
        EXPECT_EQ(bench.rate(), 0);
        const auto begin = std::chrono::steady_clock::now();
        bench.run(1);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        // Two passes lie in this time, of which the counted one moves half as much again as its arrays hold.
        EXPECT_GT(bench.rate(), 1.5 * bytes / seconds);
    }
}

TEST(MemoryBench, of_no_memory_has_no_rate) {
    const auto device = make_cpu_device(1);
    MemoryBench bench(*device, DType::f32, 7);
    bench.run(3);
    EXPECT_EQ(bench.rate(), 0);
}

}  // namespace
}  // namespace tutti
