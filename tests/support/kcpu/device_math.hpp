#pragma once
// Functions that nvcc brings and the C++ library lacks. Approximate ones get exact stand-ins: the tests'
// tolerances allow for the device's error. (glibc declares __expf and its like without exporting them: hence
// the macros.)

#include <cmath>
#include <cstdint>

using std::isfinite;
using std::isinf;
using std::isnan;

namespace tutti::kcpu {

inline float fast_exp(float x) {
    return std::exp(x);
}
inline float fast_log(float x) {
    return std::log(x);
}

}  // namespace tutti::kcpu
#define __expf ::tutti::kcpu::fast_exp
#define __logf ::tutti::kcpu::fast_log

inline float rsqrtf(float x) {
    return 1.0f / std::sqrt(x);
}
inline double rsqrt(double x) {
    return 1.0 / std::sqrt(x);
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline float __saturatef(float x) {
    return x < 0 ? 0.0f : x > 1 ? 1.0f : x == x ? x : 0.0f;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __clz(int x) {
    return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline float __uint_as_float(unsigned bits) {
    return __builtin_bit_cast(float, bits);
}
inline unsigned __float_as_uint(float value) {
    return __builtin_bit_cast(unsigned, value);
}

/// Loads that only hint at caching.
template <class T>
T __ldg(const T* data) {
    return *data;
}
template <class T>
T __ldcs(const T* data) {
    return *data;
}
template <class T>
void __stcs(T* data, T value) {
    *data = value;
}
