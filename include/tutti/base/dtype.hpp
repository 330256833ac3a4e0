#pragma once
// Element types of tensors, in memory and in files.

#include <cstddef>
#include <string_view>

namespace tutti {

/// u8: pixels; i64: labels and indices; bf16: upper half of an IEEE binary32; f32, f64: IEEE binary32,
/// binary64.
enum class DType { u8, i64, bf16, f32, f64 };

/// Bytes of one element.
constexpr std::size_t size_of(DType type) {
    switch (type) {
        case DType::u8:
            return 1;
        case DType::bf16:
            return 2;
        case DType::f32:
            return 4;
        case DType::i64:
        case DType::f64:
            return 8;
    }
    return 0;
}

/// "u8", "i64", "bf16", "f32", "f64".
constexpr std::string_view name_of(DType type) {
    switch (type) {
        case DType::u8:
            return "u8";
        case DType::i64:
            return "i64";
        case DType::bf16:
            return "bf16";
        case DType::f32:
            return "f32";
        case DType::f64:
            return "f64";
    }
    return "?";
}

/// The DType of a C++ element type: dtype_of<float> == DType::f32.
template <class T>
inline constexpr DType dtype_of = T::no_dtype_for_this_type;
template <>
inline constexpr DType dtype_of<unsigned char> = DType::u8;
template <>
inline constexpr DType dtype_of<long> = DType::i64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;

}  // namespace tutti
