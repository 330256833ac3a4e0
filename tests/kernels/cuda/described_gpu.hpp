#pragma once
// A GPU that is not there, for cuDNN to build plans for: its properties, written down after NVIDIA's data
// sheet of the H200 and the limits of compute capability 9.0 (CUDA C++ Programming Guide, "Compute
// Capabilities"), not read from one.

#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "cudnn_descriptor.hpp"

namespace tutti::test {

inline std::string properties_text() {
    std::ifstream file(GPU_PROPERTIES);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

inline cuda::CudnnDescriptor properties_of(const std::string& text) {
    cuda::CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "properties of a GPU");
    properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   std::span<const char>(text.data(), text.size()));
    properties.finalize();
    return properties;
}

}  // namespace tutti::test
