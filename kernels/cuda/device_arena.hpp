#pragma once
// Memory for one benchmark: buffers that live until the arena goes.

#include <cstddef>
#include <vector>

#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

class DeviceArena {
  public:
    DeviceArena() = default;
    ~DeviceArena();
    DeviceArena(const DeviceArena&) = delete;
    DeviceArena& operator=(const DeviceArena&) = delete;

    /// Every byte is `value`: with 0x3f floating-point elements are 0.75. Throws RunError when there is no
    /// memory.
    TensorView tensor(DType dtype, const Shape& shape, int value = 0x3f);
    /// Copied from the host.
    TensorView tensor(const std::vector<std::int64_t>& values);
    TensorView tensor(const std::vector<double>& values);

  private:
    TensorView copy(DType dtype, const void* values, std::size_t count);
    std::vector<void*> buffers_;
};

}  // namespace tutti::cuda
