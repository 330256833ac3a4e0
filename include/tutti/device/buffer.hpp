#pragma once
// Memory of a device, owned.

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// Owns `size()` bytes, zeroed when allocated, aligned to 4096 bytes. Move-only.
class Buffer {
  public:
    using Free = void (*)(std::byte*, std::size_t) noexcept;

    Buffer() = default;
    Buffer(std::byte* data, std::size_t size, Free free) : data_(data, Deleter{size, free}), size_(size) {}
    /// Memory inside something larger, which `owner` frees when the last of its buffers goes.
    Buffer(std::byte* data, std::size_t size, std::shared_ptr<void> owner)
        : data_(data, Deleter{size, [](std::byte*, std::size_t) noexcept {}}),
          size_(size),
          owner_(std::move(owner)) {}

    std::byte* data() const { return data_.get(); }
    std::size_t size() const { return size_; }

    /// View of `shape` elements of `dtype` from byte `offset` on. Precondition (asserted): inside the buffer.
    TensorView view(std::size_t offset, DType dtype, const Shape& shape) const {
        assert(offset + static_cast<std::size_t>(shape.count()) * size_of(dtype) <= size_);
        return {data_.get() + offset, dtype, shape};
    }

  private:
    struct Deleter {
        // User-provided: a default member initializer would not be ready inside Buffer's own declaration.
        Deleter() noexcept : size(0), free(nullptr) {}
        Deleter(std::size_t bytes, Free function) noexcept : size(bytes), free(function) {}
        std::size_t size;
        Free free;
        void operator()(std::byte* data) const noexcept { free(data, size); }
    };
    std::unique_ptr<std::byte, Deleter> data_;
    std::size_t size_ = 0;
    std::shared_ptr<void> owner_;
};

}  // namespace tutti
