#pragma once
// The vectors of which the rows of tiles consist.

#include <cstddef>
#include <cstdint>
#include <cstring>

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

/// From and to anywhere in memory. (g++ 12 forgets the alignment of a vector type that depends on T.)
template <class T>
inline Vector<T> load(const T* from) {
    Vector<T> vector;
    std::memcpy(&vector, from, vector_bytes);
    return vector;
}
template <class T>
inline void store(const Vector<T>& vector, T* to) {
    std::memcpy(to, &vector, vector_bytes);
}

}  // namespace tutti
