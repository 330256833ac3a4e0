#pragma once
// Vectors of numbers from and to memory, which may hold them in bf16.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bf16_value.hpp"

namespace tutti {

template <class T, std::int64_t Lanes>
struct NumbersOf {
    typedef T type __attribute__((vector_size(static_cast<std::size_t>(Lanes) * sizeof(T)), may_alias));
};
template <class T, std::int64_t Lanes>
using Numbers = typename NumbersOf<T, Lanes>::type;

/// Some numbers of a row: all of a vector, or the last ones, of which there are fewer.
template <std::int64_t Lanes>
struct WholeVector {
    static constexpr std::size_t count() { return static_cast<std::size_t>(Lanes); }
};
struct PartOfVector {
    std::size_t numbers;
    std::size_t count() const { return numbers; }
};

/// Beyond the part: zeros.
template <class T, std::int64_t Lanes, class S, class Part>
Numbers<T, Lanes> load_numbers(const S* from, Part part) {
    if constexpr (std::is_same_v<S, Bf16Value>) {
        Numbers<std::uint16_t, Lanes> halves{};
        std::memcpy(&halves, from, part.count() * sizeof(S));
        return reinterpret_cast<Numbers<float, Lanes>>(
            __builtin_convertvector(halves, Numbers<std::uint32_t, Lanes>) << 16);
    } else {
        Numbers<S, Lanes> numbers{};
        std::memcpy(&numbers, from, part.count() * sizeof(S));
        if constexpr (std::is_same_v<S, T>)
            return numbers;
        else
            return __builtin_convertvector(numbers, Numbers<T, Lanes>);
    }
}

/// To the nearest, ties to even, as bf16_bits.
template <std::int64_t Lanes, class Part>
void store_numbers(const Numbers<float, Lanes>& numbers, Bf16Value* to, Part part) {
    using Bits = Numbers<std::uint32_t, Lanes>;
    const Bits bits = reinterpret_cast<Bits>(numbers);
    const Bits rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000;
    const auto halves =
        __builtin_convertvector((numbers != numbers ? quiet : rounded) >> 16, Numbers<std::uint16_t, Lanes>);
    std::memcpy(to, &halves, part.count() * sizeof(*to));
}
template <std::int64_t Lanes, class T, class Part>
void store_numbers(const Numbers<T, Lanes>& numbers, T* to, Part part) {
    std::memcpy(to, &numbers, part.count() * sizeof(*to));
}

/// Calls body(first, part) for all vectors of a row.
template <std::int64_t Lanes, class Body>
void for_vectors(std::int64_t count, const Body& body) {
    std::int64_t at = 0;
    for (; at + Lanes <= count; at += Lanes) body(at, WholeVector<Lanes>());
    if (at < count) body(at, PartOfVector{static_cast<std::size_t>(count - at)});
}

}  // namespace tutti
