#include "optimizer_cases.hpp"

namespace tutti::test {
namespace {

class CudaOptimizerStepTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaOptimizerStepTest);

TEST_P(CudaOptimizerStepTest, counts_updates_that_are_made) {
    cuda::StepState state{.learning_rate = 1, .step = 0};
    cuda::begin_step(&state, stream_);
    EXPECT_EQ(state.step, 1);
    state.skip = 1;
    cuda::begin_step(&state, stream_);
    EXPECT_EQ(state.step, 1);
}

TEST_P(CudaOptimizerStepTest, chunks_cover_each_segment_once) {
    const OptimizerCase c;
    std::size_t next = 0;
    for (std::size_t s = 0; s < c.segments.size(); ++s) {
        std::int64_t begin = c.segments[s].offset;
        while (next < c.chunks.size() && c.chunks[next].segment == static_cast<std::int64_t>(s)) {
            EXPECT_EQ(c.chunks[next].begin, begin);
            EXPECT_GT(c.chunks[next].count, 0);
            EXPECT_LE(c.chunks[next].count, cuda::chunk_elements);
            EXPECT_EQ(c.chunks[next].weight_decay, c.segments[s].weight_decay);
            EXPECT_EQ(c.chunks[next].lr_scale, c.segments[s].lr_scale);
            begin += c.chunks[next++].count;
        }
        EXPECT_EQ(begin, c.segments[s].offset + c.segments[s].count);
    }
    EXPECT_EQ(next, c.chunks.size());
    EXPECT_TRUE(cuda::cut_into_chunks({}).empty());
}

}  // namespace
}  // namespace tutti::test
