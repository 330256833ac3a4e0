// The module's entry points: what `trainer` looks up by name after it has opened libtutti_cuda.so.

#include "module.hpp"

#include <cuda_runtime.h>

extern "C" __attribute__((visibility("default"))) int tutti_cuda_device_count() {
    int count = 0;  // left untouched where there is no driver
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
