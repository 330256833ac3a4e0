#include "bf16_winograd_weights.hpp"

#include "parallel.hpp"

namespace tutti {

bool suits_winograd_weights(const Conv2dShape& s) {
    constexpr std::int64_t least = 32, least_products = 32 * 64;
    return has_bf16_tiles() && s.kernel_h == 3 && s.kernel_w == 3 && s.padding_h <= 2 && s.padding_w <= 2 &&
           s.groups == 1 && s.in >= least && s.out >= least && s.in * s.out >= least_products &&
           s.in % bf16_lanes == 0 && s.out % bf16_lanes == 0;
}

void transform_weights_for_outputs(WindowTransform transform, const Conv2dShape& s, const float* weight,
                                   Bf16Pair* to) {
    const WinogradWeights layout(s.in, s.out);
    const auto of_outputs = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t o = begin * bf16_lanes; o < end * bf16_lanes; o += bf16_lanes) {
            const auto place = layout.place(o);
            transform_winograd_weights(transform, weight + o * 9 * s.in, s.in, to + place.at,
                                       place.product_step, place.pair_step);
        }
    };
    for_ranges(s.out / bf16_lanes, of_outputs, 9 * s.in * bf16_lanes);
}

void transform_weights_for_inputs(WindowTransform transform, const Conv2dShape& s, const float* weight,
                                  Bf16Pair* to) {
    const WinogradWeights layout(s.out, s.in);
    const auto of_pairs = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t pair = begin; pair < end; ++pair) {
            const float* const first = weight + 2 * pair * 9 * s.in;
            for (std::int64_t i = 0; i < s.in; i += WinogradWeights::slab) {
                const auto place = layout.place(i);
                transform_winograd_weight_pairs(transform, first + i, first + 9 * s.in + i, s.in,
                                                place.pair_step, to + place.at + pair * place.pair_step,
                                                place.product_step);
            }
        }
    };
    for_ranges(s.out / 2, of_pairs, 2 * 9 * s.in);
}

}  // namespace tutti
