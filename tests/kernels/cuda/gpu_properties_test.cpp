// On a machine with a GPU: cuDNN's description of it, for plans on machines that have none.

#include <gtest/gtest.h>

#include "cuda_context.hpp"
#include "described_gpu.hpp"

namespace tutti::test {
namespace {

TEST(GpuProperties, are_written_to_the_file_that_is_named_and_can_be_read_again) {
    cuda::CudaContext context;
    cuda::CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "properties of this GPU");
    const cudnnHandle_t handle = context.cudnn();
    properties.set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, handle);
    properties.finalize();
    const std::string text = text_of(properties);
    EXPECT_EQ(text_of(properties_of(text)), text);
    if (const char* const path = std::getenv("TUTTI_GPU_PROPERTIES_TO")) {
        std::ofstream file(path);
        file << text << '\n';
        EXPECT_TRUE(file.flush()) << path;
    }
}

}  // namespace
}  // namespace tutti::test
