#pragma once
// The inner loops of products in bf16 by the processor's own instructions (Intel SDM, VDPBF16PS: two products
// of neighbours are added to a sum in fp32; denormal numbers count as 0). Compiled for AVX-512 with BF16
// whatever the rest is compiled for, so this header and those of its operands are all that the two share.

#include <cstdint>

#include "bf16_pairs.hpp"

namespace tutti {

/// Whether this processor has the instructions. Without them neither the function below nor those of
/// bf16_pairs.hpp must be called.
bool has_bf16_tiles();

/// Vectors of fp32 sums in a block; bf16_lanes are theirs.
inline constexpr std::int64_t most_bf16_vectors = 4;

/// Where the summed pairs lie: `runs` times `length` steps. A run begins `left_run` and `right_run` pairs
/// after the one before it, and a step goes on by `left_step` and `right_step`. The left factors of one step
/// lie `left_row` apart.
struct PairRuns {
    std::int64_t runs, length;
    std::int64_t left_run, right_run;
    std::int64_t left_step, right_step;
    std::int64_t left_row = 1;
};
/// Memory that will be read or written next: products bring it into the second-level cache meanwhile, a line
/// of 64 bytes a step, range after range. What they have brought they take off.
struct MemoryAhead {
    struct Range {
        const void* next = nullptr;
        std::int64_t lines = 0;
    };
    Range ranges[3];
};

/// Where sums go: c[rows, columns], whose rows begin `c_row` elements apart.
struct PairSums {
    float* c;
    std::int64_t c_row;
    bool add = false;              ///< to what is in c; else c is overwritten
    const float* start = nullptr;  ///< [columns] that each row's sums begin from; null: from 0
    MemoryAhead* ahead = nullptr;
};
/// c[rows, columns] = start + Σ over steps of left[row]·right[column]. `columns` is a multiple of bf16_lanes,
/// at most bf16_lanes · most_bf16_vectors. Each element is summed in the order of the steps.
void multiply_bf16_pairs(std::int64_t rows, std::int64_t columns, const PairRuns& runs, const Bf16Pair* left,
                         const Bf16Pair* right, const PairSums& to);

}  // namespace tutti
