#pragma once
// Memory that the host must not touch, as a GPU's: it ends the program where it is read or written directly.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "staged_communicator.hpp"

namespace tutti::test {

/// The same pages twice: at the device's addresses, which nobody may touch, and at the host's, which only the
/// copies know.
class FakeDeviceMemory final : public HostStaging {
  public:
    ~FakeDeviceMemory() override {
        for (const auto& [device, area] : areas_) {
            munmap(device, area.bytes);
            munmap(area.host, area.bytes);
        }
    }
    FakeDeviceMemory() = default;
    FakeDeviceMemory(const FakeDeviceMemory&) = delete;
    FakeDeviceMemory& operator=(const FakeDeviceMemory&) = delete;

    template <class T>
    TensorView upload(const std::vector<T>& values) {
        const TensorView view{
            allocate(values.size() * sizeof(T)), dtype_of<T>, {static_cast<std::int64_t>(values.size())}};
        to_device(view, reinterpret_cast<const std::byte*>(values.data()));
        return view;
    }
    template <class T>
    std::vector<T> download(const TensorView& view) {
        std::vector<T> values(static_cast<std::size_t>(view.count()));
        to_host(reinterpret_cast<std::byte*>(values.data()), view);
        return values;
    }

    Buffer host_memory(std::size_t bytes) override {
        ++allocations;
        return {static_cast<std::byte*>(std::malloc(bytes)), bytes,
                [](std::byte* data, std::size_t) noexcept { std::free(data); }};
    }
    void to_host(std::byte* host, const TensorView& device) override {
        if (device.bytes() > 0) std::memcpy(host, host_address(device), device.bytes());
    }
    void to_device(const TensorView& device, const std::byte* host) override {
        if (device.bytes() > 0) std::memcpy(host_address(device), host, device.bytes());
    }

    int allocations = 0;  ///< of pinned memory

  private:
    struct Area {
        std::byte* host;
        std::size_t bytes;
    };

    std::byte* allocate(std::size_t bytes) {
        bytes = bytes == 0 ? 1 : bytes;
        const int file = memfd_create("device", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
            throw std::runtime_error("no memory for the fake device");
        void* const device = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
        void* const host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (device == MAP_FAILED || host == MAP_FAILED) throw std::runtime_error("mmap failed");
        areas_[static_cast<std::byte*>(device)] = {static_cast<std::byte*>(host), bytes};
        return static_cast<std::byte*>(device);
    }
    std::byte* host_address(const TensorView& device) const {
        auto after = areas_.upper_bound(device.data);
        if (after == areas_.begin()) throw std::logic_error("not memory of the fake device");
        const auto& [begin, area] = *std::prev(after);
        const auto offset = static_cast<std::size_t>(device.data - begin);
        if (offset + device.bytes() > area.bytes) throw std::logic_error("beyond memory of the fake device");
        return area.host + offset;
    }

    std::map<std::byte*, Area> areas_;
};

}  // namespace tutti::test
