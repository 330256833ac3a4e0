#pragma once
// The vectors of which the rows of tiles consist.

#include <cstddef>
#include <cstdint>

namespace tutti {

/// Bytes of the widest vector of the instruction set that this is compiled for.
inline constexpr std::size_t vector_bytes = __BIGGEST_ALIGNMENT__;

template <class T>
inline constexpr std::int64_t lanes = static_cast<std::int64_t>(vector_bytes / sizeof(T));

/// `count` rounded up to whole vectors.
template <class T>
constexpr std::int64_t padded(std::int64_t count) {
    return (count + lanes<T> - 1) / lanes<T> * lanes<T>;
}

template <class T>
struct VectorOf {
    typedef T type __attribute__((vector_size(vector_bytes), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;

}  // namespace tutti
