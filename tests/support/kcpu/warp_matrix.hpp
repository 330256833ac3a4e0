#pragma once
// The warp's operations on 8 × 8 matrices and on products of them, and copies that a thread waits for, with
// what PTX ISA says of who holds which element ("Matrix Fragments for mma.m16n8k16 with floating point type",
// "Warp-level matrix load instruction: ldmatrix", "Data Movement and Conversion Instructions: cp.async").

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "scheduler.hpp"

namespace tutti::kcpu {

/// fail() unless all lanes of the warp are there.
void want_all_lanes(const Exchange& exchange, const char* what);

/// 8 × 8 numbers of 16 bits each, four times; lane 8·m + i gives the address of row i of matrix m. Lane l
/// gets of each the elements 2·(l mod 4) and the one behind it of row l div 4, or those of the column where
/// `transposed`.
inline void load_matrices(std::uint32_t (&words)[4], const void* row, bool transposed,
                          const Place& place = Place::current()) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
        fail("a matrix's row that is not aligned to 16 bytes");
    const auto address = reinterpret_cast<std::uint64_t>(row);
    const Exchange all = exchange(WarpOperation::load_matrices, ~0u, address, place);
    want_all_lanes(all, "ldmatrix");
    const int outer = all.lane / 4, inner = all.lane % 4 * 2;
    for (int m = 0; m < 4; ++m) {
        std::uint32_t pair[2];
        for (int i = 0; i < 2; ++i) {
            const int r = transposed ? inner + i : outer, column = transposed ? outer : inner + i;
            std::uint16_t number;
            std::memcpy(&number, reinterpret_cast<const std::uint16_t*>(all.values[8 * m + r]) + column, 2);
            pair[i] = number;
        }
        words[m] = pair[0] | pair[1] << 16;
    }
}

/// c[16, 8] += a[16, 16]·b[16, 8], a and b in bf16, c in fp32.
void multiply_matrices(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                       const Place& place = Place::current());

/// 16 bytes, which are NaN until the thread waits.
inline void begin_copy(void* target, const void* source) {
    const auto words = static_cast<std::uint64_t*>(target);
    words[0] = words[1] = ~std::uint64_t{0};
    add_pending_copy({words, static_cast<const std::uint64_t*>(source)});
}
inline void wait_for_copies() {
    for (PendingCopy copy; take_pending_copy(copy);)
        for (int i = 0; i < 2; ++i) copy.target[i] = copy.source[i];
}

}  // namespace tutti::kcpu
