#pragma once
// A GPU that is not there, for cuDNN to build plans for: its properties, written down after NVIDIA's data
// sheets of the H200 and the H100 (SXM) and the limits of compute capability 9.0 (CUDA C++ Programming Guide,
// "Compute Capabilities"), not read from one.

#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "cudnn_descriptor.hpp"

namespace tutti::test {

#ifdef GPU_PROPERTIES
/// Of the GPU that TUTTI_GPU_PROPERTIES_FROM describes (as jobs/gpu_check.sh writes it on a machine that has
/// one), else of an H200.
inline std::string properties_text() {
    const char* const named = std::getenv("TUTTI_GPU_PROPERTIES_FROM");
    std::ifstream file(named ? named : GPU_PROPERTIES);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}
#endif

inline cuda::CudnnDescriptor properties_of(const std::string& text) {
    cuda::CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "properties of a GPU");
    properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   std::span<const char>(text.data(), text.size()));
    properties.finalize();
    return properties;
}

/// Those of a finalized descriptor, as cuDNN writes them.
inline std::string text_of(const cuda::CudnnDescriptor& properties) {
    std::string text;
    const auto read = [&] {
        return properties.get(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                              std::span<char>(text.data(), text.size()));
    };
    text.resize(static_cast<std::size_t>(read()));
    read();
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
}

}  // namespace tutti::test
