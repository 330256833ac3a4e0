// Where the compiler knows no AVX-512 with BF16: nobody calls what has_bf16_tiles denies.

#include <cstdlib>

#include "bf16_pairs.hpp"
#include "bf16_phase_tile.hpp"
#include "bf16_softmax_tile.hpp"
#include "bf16_tile.hpp"
#include "bf16_winograd_gradient_tile.hpp"
#include "bf16_winograd_tile.hpp"

namespace tutti {

bool has_bf16_tiles() {
    return false;
}
void make_bf16_pairs(const float*, const float*, std::int64_t, Bf16Pair*) {
    std::abort();
}
void make_bf16_pairs(const float*, const float*, std::int64_t, std::int64_t, std::int64_t, Bf16Pair*,
                     const RoundedRows&) {
    std::abort();
}
void make_bf16_pairs_in_slabs(const float*, const float*, std::int64_t, std::int64_t, std::int64_t,
                              std::int64_t, Bf16Pair*, std::int64_t, const RoundedRows&) {
    std::abort();
}
void make_bf16_pairs(const std::uint16_t*, const std::uint16_t*, std::int64_t, Bf16Pair*) {
    std::abort();
}
void make_bf16_pairs(const std::uint16_t*, const std::uint16_t*, std::int64_t, std::int64_t, std::int64_t,
                     Bf16Pair*, const RoundedRows&) {
    std::abort();
}
void make_bf16_pairs_in_slabs(const std::uint16_t*, const std::uint16_t*, std::int64_t, std::int64_t,
                              std::int64_t, std::int64_t, Bf16Pair*, std::int64_t, const RoundedRows&) {
    std::abort();
}
void turn_bf16_pairs(const float*, const float*, std::int64_t, std::int64_t, std::int64_t, Bf16Pair*,
                     std::int64_t, const RoundedRows&) {
    std::abort();
}
void round_to_bf16(const float*, std::int64_t, std::int64_t, std::int64_t, std::uint16_t*) {
    std::abort();
}
void transpose_bf16_pairs(const float*, std::int64_t, std::int64_t, std::int64_t, float, Bf16Pair*,
                          std::int64_t) {
    std::abort();
}
void multiply_bf16_pairs(std::int64_t, std::int64_t, const PairRuns&, const Bf16Pair*, const Bf16Pair*,
                         const PairSums&) {
    std::abort();
}
void softmax_to_bf16_pairs(float*, std::int64_t, std::int64_t, Bf16Pair*) {
    std::abort();
}
void softmax_to_bf16_rows(float*, std::int64_t, std::int64_t, std::uint16_t*) {
    std::abort();
}
void softmax_gradient_to_bf16(const float*, const float*, std::int64_t, std::int64_t, Bf16Pair*,
                              std::uint16_t*) {
    std::abort();
}
void transform_winograd_pixels(const float* const*, std::int64_t, Bf16Pair*, std::int64_t) {
    std::abort();
}
void transform_winograd_pixels(const std::uint16_t* const*, std::int64_t, Bf16Pair*, std::int64_t) {
    std::abort();
}
void transform_winograd_sums(const float*, std::int64_t, std::int64_t, const float*, std::uint16_t* const*) {
    std::abort();
}
void transform_winograd_sums(const float*, std::int64_t, std::int64_t, const float*, float* const*) {
    std::abort();
}
void transform_winograd_weights(WindowTransform, const float*, std::int64_t, Bf16Pair*, std::int64_t,
                                std::int64_t) {
    std::abort();
}
void transform_winograd_weight_pairs(WindowTransform, const float*, const float*, std::int64_t, std::int64_t,
                                     Bf16Pair*, std::int64_t) {
    std::abort();
}
void transform_winograd_pixel_pairs(const float* const*, const float* const*, std::int64_t, std::int64_t,
                                    Bf16Pair*, std::int64_t) {
    std::abort();
}
void transform_winograd_gradient_pairs(const float* const*, const float* const*, std::int64_t, std::int64_t,
                                       Bf16Pair*, std::int64_t) {
    std::abort();
}
void transform_winograd_pixel_pairs(const std::uint16_t* const*, const std::uint16_t* const*, std::int64_t,
                                    std::int64_t, Bf16Pair*, std::int64_t) {
    std::abort();
}
void transform_winograd_gradient_pairs(const std::uint16_t* const*, const std::uint16_t* const*, std::int64_t,
                                       std::int64_t, Bf16Pair*, std::int64_t) {
    std::abort();
}
void transform_winograd_gradient_sums(WindowTransform, const float*, std::int64_t, std::int64_t, float*,
                                      std::int64_t) {
    std::abort();
}
void transform_phase_pixels(const float* const*, std::int64_t, Bf16Pair* const*) {
    std::abort();
}
void transform_phase_pixels(const std::uint16_t* const*, std::int64_t, Bf16Pair* const*) {
    std::abort();
}
void transform_phase_sums(const float* const*, std::int64_t, const float*, float* const*) {
    std::abort();
}
void transform_phase_sums(const float* const*, std::int64_t, const float*, std::uint16_t* const*) {
    std::abort();
}
void transform_phase_gradients(const float* const*, std::int64_t, Bf16Pair* const*) {
    std::abort();
}
void transform_phase_gradients(const std::uint16_t* const*, std::int64_t, Bf16Pair* const*) {
    std::abort();
}
void transform_phase_gradient_sums(const float* const*, std::int64_t, float* const*) {
    std::abort();
}
void transform_phase_gradient_sums(const float* const*, std::int64_t, std::uint16_t* const*) {
    std::abort();
}
void transform_phase_pixel_pairs(const float* const*, const float* const*, std::int64_t, std::int64_t,
                                 Bf16Pair* const*) {
    std::abort();
}
void transform_phase_pixel_pairs(const std::uint16_t* const*, const std::uint16_t* const*, std::int64_t,
                                 std::int64_t, Bf16Pair* const*) {
    std::abort();
}
void transform_phase_gradient_pairs(const float* const*, const float* const*, std::int64_t, std::int64_t,
                                    Bf16Pair* const*) {
    std::abort();
}
void transform_phase_gradient_pairs(const std::uint16_t* const*, const std::uint16_t* const*, std::int64_t,
                                    std::int64_t, Bf16Pair* const*) {
    std::abort();
}

}  // namespace tutti
