#include "device_arena.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "gpu_error.hpp"

namespace tutti::cuda {

DeviceArena::~DeviceArena() {
    for (void* buffer : buffers_) cudaFree(buffer);
}

TensorView DeviceArena::tensor(DType dtype, const Shape& shape, int value) {
    const std::size_t bytes =
        std::max<std::size_t>(16, static_cast<std::size_t>(shape.count()) * size_of(dtype));
    void* data = nullptr;
    check(cudaMalloc(&data, bytes), "cudaMalloc of " + std::to_string(bytes) + " bytes");
    buffers_.push_back(data);
    check(cudaMemset(data, value, bytes), "cudaMemset");
    return {static_cast<std::byte*>(data), dtype, shape};
}

TensorView DeviceArena::copy(DType dtype, const void* values, std::size_t count) {
    const TensorView view = tensor(dtype, {static_cast<std::int64_t>(count)});
    check(cudaMemcpy(view.data, values, view.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    return view;
}
TensorView DeviceArena::tensor(const std::vector<std::int64_t>& values) {
    return copy(DType::i64, values.data(), values.size());
}
TensorView DeviceArena::tensor(const std::vector<double>& values) {
    return copy(DType::f64, values.data(), values.size());
}

}  // namespace tutti::cuda
