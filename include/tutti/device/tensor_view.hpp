#pragma once
// A typed, shaped view of memory that somebody else owns.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/base/dtype.hpp"
#include "tutti/base/shape.hpp"

namespace tutti {

/// Dense, row-major. Copying a view copies no data and allocates nothing. A default view is undefined (null):
/// used where an argument is optional.
struct TensorView {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    Shape shape;

    bool defined() const { return data != nullptr; }
    std::int64_t count() const { return shape.count(); }
    std::size_t bytes() const { return static_cast<std::size_t>(shape.count()) * size_of(dtype); }

    /// The elements as T. Precondition (asserted): T matches dtype.
    template <class T>
    T* as() const {
        assert(dtype_of<T> == dtype);
        return reinterpret_cast<T*>(data);
    }
    template <class T>
    std::span<T> span() const {
        return {as<T>(), static_cast<std::size_t>(count())};
    }

    /// Element i of the first dimension, which stays, as 1.
    TensorView row(std::int64_t i) const {
        assert(shape.rank() > 0 && 0 <= i && i < shape[0]);
        TensorView one = *this;
        one.shape[0] = 1;
        one.data += static_cast<std::size_t>(i) * one.bytes();
        return one;
    }

    /// The same memory under another shape with the same count.
    TensorView reshaped(const Shape& other) const {
        assert(other.count() == shape.count());
        return {data, dtype, other};
    }
};

/// View of host elements; T gives the dtype.
template <class T>
TensorView view_of(std::span<T> elements, const Shape& shape) {
    assert(static_cast<std::int64_t>(elements.size()) >= shape.count());
    return {reinterpret_cast<std::byte*>(elements.data()), dtype_of<T>, shape};
}
template <class T, std::size_t Extent>
TensorView view_of(std::span<T, Extent> elements) {
    return view_of(std::span<T>(elements), Shape{static_cast<std::int64_t>(elements.size())});
}

}  // namespace tutti
