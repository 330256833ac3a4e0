#pragma once
// Descriptors of cuDNN's backend API (the graph API in C), owned. Source: NVIDIA cuDNN documentation,
// "Backend Descriptor Types".

#include <cudnn.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu_error.hpp"

namespace tutti::cuda {

class CudnnDescriptor {
  public:
    CudnnDescriptor() = default;
    /// `what` is the descriptor's name in messages.
    CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string what) : what_(std::move(what)) {
        check(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor: " + what_);
    }
    ~CudnnDescriptor() {
        if (descriptor_) cudnnBackendDestroyDescriptor(descriptor_);
    }
    CudnnDescriptor(CudnnDescriptor&& other) noexcept
        : descriptor_(std::exchange(other.descriptor_, nullptr)), what_(std::move(other.what_)) {}
    CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        std::swap(what_, other.what_);
        return *this;
    }

    template <class T>
    void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
        check(cudnnBackendSetAttribute(descriptor_, name, type, static_cast<std::int64_t>(values.size()),
                                       values.data()),
              "cudnnBackendSetAttribute " + std::to_string(name) + " of " + what_);
    }
    template <class T>
    void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
        set(name, type, std::span<const T>(&value, 1));
    }
    void set(cudnnBackendAttributeName_t name, std::int64_t value) { set(name, CUDNN_TYPE_INT64, value); }
    void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
        set(name, CUDNN_TYPE_INT64, std::span<const std::int64_t>(values));
    }
    void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
        set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor_);
    }

    void finalize() { check(try_to_finalize(), "cudnnBackendFinalize: " + what_); }
    /// For a descriptor that cuDNN may refuse.
    cudnnStatus_t try_to_finalize() { return cudnnBackendFinalize(descriptor_); }

    /// How many values the attribute has; up to values.size() of them are written.
    template <class T>
    std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::span<T> values) const {
        std::int64_t count = 0;
        check(cudnnBackendGetAttribute(descriptor_, name, type, static_cast<std::int64_t>(values.size()),
                                       &count, values.data()),
              "cudnnBackendGetAttribute " + std::to_string(name) + " of " + what_);
        return count;
    }

    cudnnBackendDescriptor_t get() const { return descriptor_; }

  private:
    cudnnBackendDescriptor_t descriptor_ = nullptr;
    std::string what_;
};

}  // namespace tutti::cuda
