#pragma once
// Atomic functions (CUDA C++ Programming Guide, "Atomic Functions"). Threads switch at barriers only, so
// plain accesses are enough; they are inlined into the kernel, where the sanitizers check the address.

#include <type_traits>

#include "race.hpp"

namespace tutti::kcpu {

template <class T, class Update>
T update_atomically(T* target, const Update& update) {
    const AtomicAccess access(target, sizeof(T));
    const T old = *target;
    *target = update(old);
    return old;
}

}  // namespace tutti::kcpu

template <class T>
T atomicAdd(T* target, std::type_identity_t<T> value) {
    return tutti::kcpu::update_atomically(target, [value](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicSub(T* target, std::type_identity_t<T> value) {
    return tutti::kcpu::update_atomically(target, [value](T old) { return static_cast<T>(old - value); });
}
template <class T>
T atomicMax(T* target, std::type_identity_t<T> value) {
    return tutti::kcpu::update_atomically(target, [value](T old) { return old > value ? old : value; });
}
template <class T>
T atomicMin(T* target, std::type_identity_t<T> value) {
    return tutti::kcpu::update_atomically(target, [value](T old) { return old < value ? old : value; });
}
template <class T>
T atomicOr(T* target, std::type_identity_t<T> value) {
    return tutti::kcpu::update_atomically(target, [value](T old) { return old | value; });
}
template <class T>
T atomicAnd(T* target, std::type_identity_t<T> value) {
    return tutti::kcpu::update_atomically(target, [value](T old) { return old & value; });
}
template <class T>
T atomicExch(T* target, std::type_identity_t<T> value) {
    return tutti::kcpu::update_atomically(target, [value](T) { return value; });
}
template <class T>
T atomicCAS(T* target, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    return tutti::kcpu::update_atomically(target, [=](T old) { return old == expected ? value : old; });
}
/// Counts up to `limit`, then starts again at 0.
inline unsigned atomicInc(unsigned* target, unsigned limit) {
    return tutti::kcpu::update_atomically(target,
                                          [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}
