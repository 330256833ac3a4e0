#include "gpu.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <vector>

namespace tutti::doctor {
namespace {

/// A library that may be absent.
class Library {
  public:
    explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
    ~Library() {
        if (handle_ != nullptr) dlclose(handle_);
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    template <class Function>
    Function* find(const char* name) const {
        return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, name));
    }

  private:
    void* handle_;
};

using Device = void*;

struct Nvml {
    Library library{"libnvidia-ml.so.1"};
    int (*init)() = library.find<int()>("nvmlInit_v2");
    int (*shutdown)() = library.find<int()>("nvmlShutdown");
    int (*count)(unsigned*) = library.find<int(unsigned*)>("nvmlDeviceGetCount_v2");
    int (*by_index)(unsigned,
                    Device*) = library.find<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
    int (*name)(Device, char*, unsigned) = library.find<int(Device, char*, unsigned)>("nvmlDeviceGetName");
    int (*uuid)(Device, char*, unsigned) = library.find<int(Device, char*, unsigned)>("nvmlDeviceGetUUID");

    bool usable() const { return init && shutdown && count && by_index && name && uuid && init() == 0; }
};

std::vector<Gpu> all_gpus() {
    const Nvml nvml;
    if (!nvml.usable()) return {};
    std::vector<Gpu> gpus;
    unsigned count = 0;
    if (nvml.count(&count) != 0) count = 0;
    for (unsigned index = 0; index < count; ++index) {
        Device device = nullptr;
        std::array<char, 96> name{}, uuid{};
        if (nvml.by_index(index, &device) != 0 || nvml.name(device, name.data(), name.size()) != 0 ||
            nvml.uuid(device, uuid.data(), uuid.size()) != 0)
            continue;
        gpus.push_back({name.data(), uuid.data()});
    }
    nvml.shutdown();
    return gpus;
}

/// As CUDA reads it: numbers or beginnings of UUIDs, up to the first that does not exist.
std::vector<Gpu> visible(const std::vector<Gpu>& gpus, const std::string& list) {
    std::vector<Gpu> result;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        const std::string item = list.substr(begin, end - begin);
        begin = end + 1;
        std::size_t index = gpus.size();
        const auto parsed = std::from_chars(item.data(), item.data() + item.size(), index);
        if (item.empty() || parsed.ec != std::errc{} || parsed.ptr != item.data() + item.size()) {
            index = 0;
            while (index < gpus.size() && (item.empty() || !gpus[index].uuid.starts_with(item))) ++index;
        }
        if (index >= gpus.size()) break;
        result.push_back(gpus[index]);
    }
    return result;
}

}  // namespace

Gpu gpu_of_rank(int local_rank) {
    std::vector<Gpu> gpus = all_gpus();
    if (const char* const list = std::getenv("CUDA_VISIBLE_DEVICES")) gpus = visible(gpus, list);
    if (gpus.empty()) return {};
    return gpus[static_cast<std::size_t>(local_rank) % gpus.size()];
}

std::map<std::string, std::string> gpu_libraries() {
    std::map<std::string, std::string> versions;
    const Library nccl("libnccl.so.2");
    int number = 0;
    // 22809 is 2.28.9 (nccl.h, NCCL_VERSION).
    if (auto* const version = nccl.find<int(int*)>("ncclGetVersion"); version && version(&number) == 0)
        versions["NCCL"] = fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    const Library cudnn("libcudnn.so.9");
    // 91900 is 9.19.0 (cudnn_version.h).
    if (auto* const version = cudnn.find<std::size_t()>("cudnnGetVersion"))
        versions["cuDNN"] =
            fmt::format("{}.{}.{}", version() / 10000, version() / 100 % 100, version() % 100);
    return versions;
}

}  // namespace tutti::doctor
