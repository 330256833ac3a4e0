#pragma once
// The bias's gradient of a convolution.

#include <algorithm>
#include <cstdint>

#include "bf16_value.hpp"
#include "parallel.hpp"

namespace tutti {

/// dbias[O] = the sum of dy[N, pixels, O], of fp32 or (std::uint16_t) bf16: of each image, into parts[N, O],
/// then of these in their order, whatever the number of threads.
template <class Value>
void sum_bias(std::int64_t batch, std::int64_t pixels, std::int64_t out, const Value* dy, float* dbias,
              float* parts) {
    const auto of_images = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t image = begin; image < end; ++image) {
            float* const sums = parts + image * out;
            std::fill_n(sums, out, 0.0f);
            for (const Value* from = dy + image * pixels * out; from < dy + (image + 1) * pixels * out;
                 from += out)
                for (std::int64_t o = 0; o < out; ++o) sums[o] += number_of<float>(from[o]);
        }
    };
    for_ranges(batch, of_images, pixels * out);
    std::fill_n(dbias, out, 0.0f);
    for (std::int64_t image = 0; image < batch; ++image)
        for (std::int64_t o = 0; o < out; ++o) dbias[o] += parts[image * out + o];
}

}  // namespace tutti
