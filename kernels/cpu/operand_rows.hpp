#pragma once
// How far apart the rows of products' operands lie.

#include <cstdint>
#include <dnnl.hpp>

#include "tile_vector.hpp"

namespace tutti {

/// Whether the library computes with AVX-512.
inline bool library_has_avx512() {
    static const bool has = [] {
        constexpr auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
        return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & avx512) == avx512;
    }();
    return has;
}

/// The library brings the same columns of many rows into an order of its own. Where rows lie a multiple of
/// 2 KiB apart, their lines share two of the first cache's 64 sets (8 at 512 bytes) and drive each other out.
/// Such an operand is better copied to rows that are one line further apart. Measured on AVX2 (Zen 3, oneDNN
/// 2.6, a core; copies included), 64 rows, dweight and dx in µs, as they are and copied:
///     512→512   564 and 519    368 and 394          1024→256   792 and 712    393 and 402
///     384→384   243 and 199    201 and 211          768→768    855 and 862    812 and 860
/// Not where it was not measured: where the library computes with AVX-512, whatever this is built for.
inline bool spreads_rows() {
    return vector_bytes == 32 && !library_has_avx512();
}

/// Floats from a row to the next, of rows so long that follow each other, where the others are apart by
/// multiples of `harmful` bytes.
inline std::int64_t row_distance(std::int64_t columns, std::int64_t harmful) {
    constexpr std::int64_t line = 16, float_bytes = 4;
    return spreads_rows() && columns * float_bytes % harmful == 0 ? columns + line : columns;
}

/// Of activations and their gradients in the product that makes a weight's gradient: few against its result.
inline std::int64_t activation_row(std::int64_t features) {
    return row_distance(features, 512);
}

/// Of weights in the product that makes the input's gradient of so many rows; the copy costs as much as some
/// of them.
inline std::int64_t weight_row(std::int64_t features, std::int64_t rows) {
    constexpr std::int64_t least_rows = 16;
    return rows < least_rows ? features : row_distance(features, 2048);
}

}  // namespace tutti
