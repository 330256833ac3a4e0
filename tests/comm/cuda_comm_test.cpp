// The module's streams and copies for communication, on a GPU that is not there (tests/support/fake_gpu).

#include "cuda_comm.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fake_gpu.hpp"

namespace tutti::test {
namespace {

TEST(cuda_comm, an_error_that_was_told_is_not_told_to_who_asks_next) {
    fake_gpu::reset();
    const char* problem = nullptr;
    fake_gpu::fail_next("cudaStreamCreateWithPriority", cudaErrorMemoryAllocation);
    EXPECT_EQ(tutti_cuda_make_side_stream(nullptr, &problem), nullptr);
    EXPECT_NE(std::string(problem).find("cudaStreamCreateWithPriority failed: cudaErrorMemoryAllocation"),
              std::string::npos)
        << problem;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);

    const std::unique_ptr<HostStaging> staging(tutti_cuda_make_staging(nullptr, &problem));
    ASSERT_NE(staging, nullptr) << problem;
    fake_gpu::fail_next("cudaHostAlloc", cudaErrorMemoryAllocation);
    EXPECT_THROW(staging->host_memory(64), RunError);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);

    fake_gpu::fail_next("cudaGetDeviceCount", cudaErrorInsufficientDriver);
    EXPECT_EQ(std::string(tutti_cuda_visible_gpus()), "");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(cuda_comm, a_mark_that_is_not_reached_is_no_error) {
    fake_gpu::reset();
    const char* problem = nullptr;
    const std::unique_ptr<GpuSideStream> side(tutti_cuda_make_side_stream(nullptr, &problem));
    ASSERT_NE(side, nullptr) << problem;
    const auto mark = side->mark();
    fake_gpu::fail_next("cudaEventQuery", cudaErrorNotReady);
    EXPECT_FALSE(mark->reached());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_TRUE(mark->reached());
}

}  // namespace
}  // namespace tutti::test
