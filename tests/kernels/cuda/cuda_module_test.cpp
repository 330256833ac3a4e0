// The module as it is: with a GPU it gives a device, without one its refusal crosses the module's border as
// the error that it is.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>

#include "module.hpp"
#include "tutti/base/error.hpp"
#include "tutti/device/cuda_module.hpp"

namespace tutti::test {
namespace {

template <class Function>
Function* find(const char* name) {
    static void* const module = dlopen(TUTTI_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (!module) throw RunError(dlerror());
    return reinterpret_cast<Function*>(dlsym(module, name));
}

TEST(CudaModule, has_the_interface_of_this_program) {
    auto* const interface = find<decltype(tutti_cuda_interface)>("tutti_cuda_interface");
    ASSERT_NE(interface, nullptr);
    EXPECT_EQ(interface(), cuda_module_interface);
}

TEST(CudaModule, gives_a_device_or_the_error_that_callers_catch) {
    auto* const make_device = find<decltype(tutti_cuda_make_device)>("tutti_cuda_make_device");
    ASSERT_NE(make_device, nullptr);
    if (find<decltype(tutti_cuda_device_count)>("tutti_cuda_device_count")() > 0) {
        const std::unique_ptr<Device> device(make_device(0));
        EXPECT_EQ(device->kind(), "cuda");
        return;
    }
    try {
        const std::unique_ptr<Device> device(make_device(0));
        ADD_FAILURE() << "nothing was thrown";
    } catch (const RunError& error) {
        EXPECT_EQ(error.code(), ExitCode::failed);
        EXPECT_NE(std::string(error.what()).find("cudaSetDevice for GPU 0 failed: cudaError"),
                  std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace tutti::test
