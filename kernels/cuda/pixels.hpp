#pragma once
// Threads for [N, H, W, C]: each has N neighbouring channels of one pixel.

#include "geometry.hpp"
#include "launch.hpp"

namespace tutti::cuda {

/// Where item `item` of samples × height × width × groups lies; a group is `lanes` channels. Sizes of one
/// image fit in 32 bits; 64-bit arithmetic is for what spans the batch.
struct Pixel {
    std::int64_t n;
    int h, w, channel;
};
__device__ inline Pixel pixel_of(std::int64_t item, int height, int width, int groups, int lanes) {
    const std::int64_t pixel = item / groups, row = pixel / width;
    return {row / height, static_cast<int>(row % height), static_cast<int>(pixel % width),
            static_cast<int>(item % groups) * lanes};
}

}  // namespace tutti::cuda
