#pragma once
// Values between layers that lie in memory in bf16 and are computed with in fp32.

#include <type_traits>

#include "tutti/base/bf16.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// In place of float where a loop reads or writes memory. (No class: g++ 12 makes no vectors of a loop that
/// copies one.)
enum class Bf16Value : std::uint16_t {};

template <>
inline constexpr DType dtype_of<Bf16Value> = DType::bf16;

/// A stored value as a number to compute with: of T, float, Bf16Value, or its bits (std::uint16_t).
template <class T, class S>
T number_of(S stored) {
    if constexpr (std::is_same_v<S, Bf16Value> || std::is_same_v<S, std::uint16_t>)
        return static_cast<T>(float_of_bf16(static_cast<std::uint16_t>(stored)));
    else
        return static_cast<T>(stored);
}
/// The other way; to the nearest, ties to even.
template <class S, class T>
S stored_as(T number) {
    if constexpr (std::is_same_v<S, Bf16Value>)
        return static_cast<Bf16Value>(bf16_bits(number));
    else
        return number;
}

/// Calls compute.operator()<S>() with what `values` consists of: T, or, where T is float, also Bf16Value.
template <class T, class Compute>
void as_stored(const TensorView& values, const Compute& compute) {
    if constexpr (std::is_same_v<T, float>)
        if (values.dtype == DType::bf16) return compute.template operator()<Bf16Value>();
    compute.template operator()<T>();
}

}  // namespace tutti
