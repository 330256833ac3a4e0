#include "tutti/device/cuda_module.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <sstream>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr const char* module_name = "libtutti_cuda.so";

}  // namespace

std::string cuda_module_path() {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / module_name;
}

CudaModule::CudaModule() {
    // The driver is asked for by name first: without one the module would be opened for nothing.
    if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
        problem_ = "there is no NVIDIA driver (libcuda.so.1 was not found)";
        return;
    }
    const std::string path = cuda_module_path();
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
        problem_ = path + " is missing: this program was built without CUDA (-Dcuda=disabled, or no nvcc)";
        return;
    }
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) {
        problem_ = std::string("the CUDA module could not be opened: ") + dlerror();
        return;
    }
    const auto interface = reinterpret_cast<int (*)()>(symbol("tutti_cuda_interface"));
    if (interface && interface() != cuda_module_interface)
        problem_ = path + " is of another version than this program: install both anew";
    if (!problem_.empty()) return;
    const auto why_no_gpu = reinterpret_cast<const char* (*)()>(symbol("tutti_cuda_why_no_gpu"));
    device_count_ = reinterpret_cast<int (*)()>(symbol("tutti_cuda_device_count"));
    make_device_ = reinterpret_cast<Device* (*)(int)>(symbol("tutti_cuda_make_device"));
    device_name_ = reinterpret_cast<const char* (*)(int)>(symbol("tutti_cuda_device_name"));
    time_kernel_ = reinterpret_cast<const char* (*)(int, int, double*)>(symbol("tutti_cuda_time_kernel"));
    visible_gpus_ = reinterpret_cast<const char* (*)()>(symbol("tutti_cuda_visible_gpus"));
    basis_of_bits_ = reinterpret_cast<const char* (*)(int)>(symbol("tutti_cuda_basis_of_bits"));
    compute_stream_ = reinterpret_cast<void* (*)(Device*)>(symbol("tutti_cuda_compute_stream"));
    make_side_stream_ = symbol("tutti_cuda_make_side_stream");
    make_staging_ = symbol("tutti_cuda_make_staging");
    make_bf16_transit_ = symbol("tutti_cuda_make_bf16_transit");
    if (!problem_.empty()) return;
    if (const char* const why = why_no_gpu()) problem_ = why;
}

void* CudaModule::symbol(const char* name) {
    void* found = dlsym(library_, name);
    if (!found) problem_ = std::string(module_name) + " is of another version: it has no " + name;
    return found;
}

int CudaModule::device_count() const {
    return device_count_();
}

std::unique_ptr<Device> CudaModule::make_device(int index) const {
    return std::unique_ptr<Device>(make_device_(index));
}

std::vector<std::string> CudaModule::visible_gpus() const {
    std::istringstream lines(visible_gpus_());
    std::vector<std::string> uuids;
    for (std::string line; std::getline(lines, line);) uuids.push_back(line);
    return uuids;
}

void CudaModule::time_kernel(int index, std::span<double> seconds) const {
    if (const char* problem = time_kernel_(index, static_cast<int>(seconds.size()), seconds.data()))
        throw RunError(problem, "if the GPU is in use by others, try again");
}

}  // namespace tutti
