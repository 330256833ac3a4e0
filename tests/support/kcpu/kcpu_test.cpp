#include "kcpu.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::kcpu {
namespace {

/// What a launch of `kernel` says when it is refused or stopped; empty when it ends.
template <class... Parameters, class... Arguments>
std::string problem_of(void (*kernel)(Parameters...), Extent grid, Extent block, Arguments... arguments) {
    try {
        launch("kernel", kernel, grid, block, 0, arguments...);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

class KcpuTest : public testing::TestWithParam<Order> {
  protected:
    KcpuTest() { set_order(GetParam(), 3); }
    static void expect_says(const std::string& said, const std::string& part) {
        EXPECT_NE(said.find(part), std::string::npos) << "it says: " << said;
    }
};
INSTANTIATE_TEST_SUITE_P(, KcpuTest, testing::Values(Order::forward, Order::reverse, Order::random));

__global__ void reverse_block(const int* in, int* out) {
    SHARED(int, tile, [70]);
    tile[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

TEST_P(KcpuTest, barriers_order_shared_memory) {
    std::vector<int> in(210), out(210);
    for (int i = 0; i < 210; ++i) in[static_cast<std::size_t>(i)] = i;
    launch("reverse_block", reverse_block, {3}, {70}, 0, in.data(), out.data());
    for (int i = 0; i < 210; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], i / 70 * 70 + 69 - i % 70);
}

__global__ void describe_places(unsigned* out) {
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    atomicAdd(&out[block * 24 + thread], 1u);
}

TEST_P(KcpuTest, runs_each_thread_of_three_dimensions_once) {
    std::vector<unsigned> out(24 * 8, 0);
    launch("describe_places", describe_places, {2, 2, 2}, {4, 3, 2}, 0, out.data());
    EXPECT_EQ(out, std::vector<unsigned>(24 * 8, 1));
}

__global__ void multiply_and_transpose(const std::uint16_t* numbers, float* product,
                                       std::uint32_t* transposed) {
    SHARED(std::uint16_t, tile, [16][16]);
    const int lane = static_cast<int>(threadIdx.x), group = lane / 4, member = lane % 4;
    begin_copy(&tile[lane / 2][lane % 2 * 8], numbers + lane * 8);
    wait_for_copies();
    __syncwarp();
    // Rows first, left before right: what a left operand is.
    std::uint32_t a[4], b[4];
    load_matrices(a, &tile[lane % 16][lane / 16 * 8], false);
    load_matrices(b, &tile[lane % 16][lane / 16 * 8], true);
    float c[4] = {1000, 1000, 1000, 1000};
    multiply_matrices(c, a, {b[0], b[1]});
    for (int i = 0; i < 4; ++i) product[(group + i / 2 * 8) * 8 + member * 2 + i % 2] = c[i];
    for (int m = 0; m < 4; ++m) transposed[m * 32 + lane] = b[m];
}

/// Small whole numbers in bf16.
std::uint16_t whole(int number) {
    return static_cast<std::uint16_t>(to_bits(static_cast<float>(number)) >> 16);
}

TEST_P(KcpuTest, warps_multiply_matrices_and_transpose_them) {
    const auto at = [](int row, int column) { return (row * 5 + column * 3) % 11 - 5; };
    std::vector<std::uint16_t> numbers;
    for (int i = 0; i < 256; ++i) numbers.push_back(whole(at(i / 16, i % 16)));
    std::vector<float> product(16 * 8);
    std::vector<std::uint32_t> transposed(4 * 32);
    launch("multiply_and_transpose", multiply_and_transpose, {1}, {32}, 0, numbers.data(), product.data(),
           transposed.data());
    for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
            int sum = 1000;
            for (int k = 0; k < 16; ++k) sum += at(row, k) * at(k, column);
            EXPECT_EQ(product[static_cast<std::size_t>(row * 8 + column)], static_cast<float>(sum));
        }
    for (int m = 0; m < 4; ++m)
        for (int lane = 0; lane < 32; ++lane) {
            const int row = m % 2 * 8 + lane % 4 * 2, column = m / 2 * 8 + lane / 4;
            EXPECT_EQ(transposed[static_cast<std::size_t>(m * 32 + lane)],
                      whole(at(row, column)) | static_cast<unsigned>(whole(at(row + 1, column))) << 16);
        }
}

__global__ void copy_without_waiting(const std::uint64_t* from, std::uint64_t* to, bool waits) {
    SHARED(std::uint64_t, tile, [2]);
    begin_copy(tile, from);
    if (waits) wait_for_copies();
    to[0] = tile[0];
    to[1] = tile[1];
}

TEST_P(KcpuTest, copies_are_there_when_a_thread_has_waited) {
    const std::vector<std::uint64_t> from = {7, 8}, nan(2, ~std::uint64_t{0});
    std::vector<std::uint64_t> to(2);
    for (const bool waits : {false, true, false}) {
        launch("copy_without_waiting", copy_without_waiting, {1}, {1}, 0, from.data(), to.data(), waits);
        EXPECT_EQ(to, waits ? from : nan);
    }
}

__global__ void load_with_half_a_warp() {
    SHARED(std::uint16_t, tile, [16][16]);
    std::uint32_t words[4];
    if (threadIdx.x < 16) load_matrices(words, tile[threadIdx.x], false);
}
__global__ void load_from_an_odd_row() {
    SHARED(std::uint16_t, tile, [16][16]);
    std::uint32_t words[4];
    load_matrices(words, tile[0] + 1, false);
}

TEST_P(KcpuTest, matrices_want_all_lanes_and_aligned_rows) {
    expect_says(problem_of(load_with_half_a_warp, {1}, {32}), "ldmatrix needs all lanes of the warp");
    expect_says(problem_of(load_from_an_odd_row, {1}, {32}), "not aligned to 16 bytes");
}

__global__ void exchange_lanes(int* out) {
    const int lane = static_cast<int>(threadIdx.x);
    int* mine = out + lane * 6;
    mine[0] = __shfl_xor_sync(~0u, lane, 5);
    mine[1] = __shfl_down_sync(~0u, lane, 3, 8);
    mine[2] = __shfl_up_sync(~0u, lane, 3);
    mine[3] = __shfl_sync(~0u, lane, 9, 16);
    mine[4] = static_cast<int>(__ballot_sync(~0u, lane % 3 == 0));
    if (lane < 16) mine[5] = __shfl_xor_sync(0xffffu, lane, 1);
}

TEST_P(KcpuTest, lanes_exchange_values) {
    std::vector<int> out(32 * 6, -1);
    launch("exchange_lanes", exchange_lanes, {1}, {32}, 0, out.data());
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane += 3) votes |= 1u << lane;
    for (int lane = 0; lane < 32; ++lane) {
        const int* mine = out.data() + lane * 6;
        EXPECT_EQ(mine[0], lane ^ 5);
        EXPECT_EQ(mine[1], lane % 8 + 3 < 8 ? lane + 3 : lane);
        EXPECT_EQ(mine[2], lane < 3 ? lane : lane - 3);
        EXPECT_EQ(mine[3], lane / 16 * 16 + 9);
        EXPECT_EQ(mine[4], static_cast<int>(votes));
        EXPECT_EQ(mine[5], lane < 16 ? lane ^ 1 : -1);
    }
}

__global__ void read_before_write(float* out, int write) {
    SHARED(float, value, );
    if (write) value = 1;
    out[blockIdx.x] = value;
}

TEST_P(KcpuTest, shared_memory_is_nan_at_the_begin_of_each_block) {
    float out[2] = {};
    launch("read_before_write", read_before_write, {2}, {1}, 0, out, 0);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
}

__global__ void some_leave() {
    if (threadIdx.x > 40) return;
    __syncthreads();
}
__global__ void different_barriers() {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

TEST_P(KcpuTest, divergent_barriers_are_named_with_their_place) {
    const std::string left = problem_of(some_leave, {1}, {64});
    expect_says(left, "divergent barrier: some threads wait for the block, others have left the kernel");
    expect_says(left, "kcpu_test.cpp:");
    expect_says(problem_of(different_barriers, {1}, {64}), "the block's threads wait at different barriers");
}

__global__ void mask_without_caller() {
    __syncwarp(1u);
}
__global__ void read_left_lane(int* out) {
    if (threadIdx.x == 7) return;
    out[threadIdx.x] = __shfl_sync(~0u, 1, 7);
}
__global__ void different_operations() {
    if (threadIdx.x < 16) {
        __syncwarp();
    } else {
        __ballot_sync(~0u, 1);
    }
}
__global__ void wait_for_each_other() {
    if (threadIdx.x == 0) __syncthreads();
    __syncwarp();
}

TEST_P(KcpuTest, misused_warp_operations_are_named) {
    int out[32];
    expect_says(problem_of(mask_without_caller, {1}, {32}), "whose mask does not name it");
    expect_says(problem_of(read_left_lane, {1}, {32}, static_cast<int*>(out)),
                "reads lane 7, which has left");
    expect_says(problem_of(different_operations, {1}, {32}),
                "lanes of one mask meet in different warp operations");
    expect_says(problem_of(wait_for_each_other, {1}, {32}), "deadlock: the threads wait for one another");
}

__global__ void nothing() {}
__global__ void use_both() {
    SHARED(float, values, [32]);
    values[0] = *static_cast<float*>(dynamic_shared_memory()) = 0;
}
__global__ void use_dynamic() {
    dynamic_shared_memory();
}

TEST_P(KcpuTest, launches_that_cuda_refuses_are_refused) {
    expect_says(problem_of(nothing, {1}, {1025}), "a block of 1025 threads cannot be launched");
    expect_says(problem_of(nothing, {1, 65536}, {1}), "a grid of 1 x 65536 x 1 blocks cannot be launched");
    expect_says(problem_of(use_dynamic, {1}, {1}), "dynamic shared memory is used, but the launch gave none");
    EXPECT_EQ(problem_of(nothing, {2}, {1024}), "");
}

TEST_P(KcpuTest, static_and_dynamic_shared_memory_share_what_a_launch_may_have) {
    EXPECT_NO_THROW(launch("both", use_both, {1}, {1}, unasked_shared_memory - 128));
    EXPECT_THROW(launch("both", use_both, {1}, {1}, unasked_shared_memory - 127), Error);
    EXPECT_THROW(launch("dynamic", use_dynamic, {1}, {1}, unasked_shared_memory + 1), Error);
    const SharedMemory asked{most_shared_memory - 128, most_shared_memory};
    EXPECT_NO_THROW(launch_in_stream(nullptr, "both", use_both, {1}, {1}, asked));
}

}  // namespace
}  // namespace tutti::kcpu
