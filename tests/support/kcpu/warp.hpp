#pragma once
// Barriers, and the operations in which the lanes of a warp see one another's values (CUDA C++ Programming
// Guide, "Synchronization Functions", "Warp Shuffle Functions", "Warp Vote Functions").

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "scheduler.hpp"

namespace tutti::kcpu {

template <class T>
std::uint64_t to_bits(T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
T value_of_lane(const Exchange& exchange, unsigned mask, int lane) {
    const auto refuse = [lane](const char* why) {
        fail("a shuffle reads lane " + std::to_string(lane) + ", which " + why);
    };
    if ((mask >> lane & 1) == 0) refuse("is not in its mask");
    if ((exchange.lanes >> lane & 1) == 0) refuse("has left the kernel or does not exist");
    T value;
    std::memcpy(&value, &exchange.values[lane], sizeof value);
    return value;
}

template <class T>
Exchange shuffle(unsigned mask, T value, const Place& place) {
    return exchange(WarpOperation::shuffle, mask, to_bits(value), place);
}

}  // namespace tutti::kcpu

inline void __syncthreads(tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    tutti::kcpu::block_barrier(0, place);
}
inline int __syncthreads_count(int predicate, tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    return tutti::kcpu::block_barrier(predicate != 0, place);
}
inline int __syncthreads_or(int predicate, tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    return tutti::kcpu::block_barrier(predicate != 0, place) != 0;
}
inline int __syncthreads_and(int predicate, tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    return tutti::kcpu::block_barrier(predicate == 0, place) == 0;
}
inline void __syncwarp(unsigned mask = ~0u, tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    tutti::kcpu::exchange(tutti::kcpu::WarpOperation::sync, mask, 0, place);
}

// Blocks run one after the other: whatever one wrote, the next one sees.
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    const auto all = tutti::kcpu::shuffle(mask, value, place);
    return tutti::kcpu::value_of_lane<T>(all, mask, (all.lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32,
                  tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    const auto all = tutti::kcpu::shuffle(mask, value, place);
    const int source = all.lane ^ distance;
    const bool outside = (source & ~(width - 1)) > (all.lane & ~(width - 1));
    return outside ? value : tutti::kcpu::value_of_lane<T>(all, mask, source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    const auto all = tutti::kcpu::shuffle(mask, value, place);
    const int source = all.lane + static_cast<int>(distance);
    return source > (all.lane | (width - 1)) ? value : tutti::kcpu::value_of_lane<T>(all, mask, source);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    const auto all = tutti::kcpu::shuffle(mask, value, place);
    const int source = all.lane - static_cast<int>(distance);
    return source < (all.lane & ~(width - 1)) ? value : tutti::kcpu::value_of_lane<T>(all, mask, source);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    const auto all = tutti::kcpu::exchange(tutti::kcpu::WarpOperation::ballot, mask, predicate != 0, place);
    unsigned votes = 0;
    for (int lane = 0; lane < 32; ++lane)
        if ((mask & all.lanes & 1u << lane) != 0) votes |= static_cast<unsigned>(all.values[lane]) << lane;
    return votes;
}
inline int __any_sync(unsigned mask, int predicate,
                      tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    return __ballot_sync(mask, predicate, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      tutti::kcpu::Place place = tutti::kcpu::Place::current()) {
    return __ballot_sync(mask, !predicate, place) == 0;
}
