#pragma once
// Max pooling of as many channels as a vector holds.

#include <cstring>
#include <type_traits>

#include "tile_numbers.hpp"
#include "tile_vector.hpp"

namespace tutti {

/// The winner where ReLU lets nothing pass: a place that no window has.
inline constexpr unsigned char no_winner = 255;

/// The best so far and their places in their windows stay in registers.
template <class T>
struct MaxPoolLanes {
    typedef T Values __attribute__((vector_size(vector_bytes)));
    typedef std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t> Wide;
    typedef Wide Places __attribute__((vector_size(vector_bytes)));
    typedef unsigned char Bytes __attribute__((vector_size(vector_bytes / sizeof(T))));
    typedef std::uint16_t Halves __attribute__((vector_size(2 * vector_bytes / sizeof(T))));
    typedef std::int32_t Words __attribute__((vector_size(4 * vector_bytes / sizeof(T))));
    static constexpr std::int64_t count = lanes<T>;

    static Values load(const T* x) { return load_as<Values>(x); }
    /// Twice as wide at a time, which GCC 12 does in vectors; more at once, element by element.
    static Places load_places(const unsigned char* winner) {
        return as<Places>(as<Words>(as<Halves>(load_as<Bytes>(winner))));
    }
    /// (x > best or NaN) ? … : …, as wins(); the comparisons are all ones where they hold.
    static void challenge(Values x, unsigned char place, Values& best, Places& winner) {
        const Places better = (x > best) | (x != x);
        best = better ? x : best;
        winner = better ? Places{} + place : winner;
    }
    /// What is not above 0 becomes 0, and nothing won there.
    static void rectify(Values& best, Places& winner) {
        const Places dead = best <= 0;
        best = dead ? Values{} : best;
        winner = dead ? Places{} + no_winner : winner;
    }
    static void store(Values best, Places winner, T* y, unsigned char* winners) {
        std::memcpy(y, &best, sizeof best);
        store_places(winner, winners);
    }
    static void store_places(Places winner, unsigned char* winners) {
        const Bytes bytes = lowest_bytes(winner);
        std::memcpy(winners, &bytes, sizeof bytes);
    }

  private:
    /// Of each place. AVX-512 has an instruction for it; before, GCC 12 converts element by element.
    static Bytes lowest_bytes(Places places) {
        if constexpr (vector_bytes == 64 || vector_bytes / sizeof(T) < 8) {
            return __builtin_convertvector(places, Bytes);
        } else {
            typedef unsigned char All __attribute__((vector_size(vector_bytes)));
            return of_every_fourth(reinterpret_cast<All>(places));
        }
    }
    template <class All>
    static Bytes of_every_fourth(All all) {
        return __builtin_shufflevector(all, all, 0, 4, 8, 12, 16, 20, 24, 28);
    }
    template <class To, class From>
    static To as(From from) {
        return __builtin_convertvector(from, To);
    }
    template <class V>
    static V load_as(const void* from) {
        V vector;
        std::memcpy(&vector, from, sizeof vector);
        return vector;
    }
};

/// Of bf16 in memory: what wins, or 0, is a number that bf16 has.
template <>
struct MaxPoolLanes<Bf16Value> : MaxPoolLanes<float> {
    static Values load(const Bf16Value* x) { return load_numbers<float, count>(x, WholeVector<count>()); }
    static void store(Values best, Places winner, Bf16Value* y, unsigned char* winners) {
        store(best, y);
        store_places(winner, winners);
    }
    /// Rounds.
    static void store(Values values, Bf16Value* y) { store_numbers<count>(values, y, WholeVector<count>()); }
};

}  // namespace tutti
