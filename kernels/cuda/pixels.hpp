#pragma once
// Threads for batches of [N, H, W, C]: each has some neighbouring channels of one pixel. What divides and
// counts within a launch has 32 bits, as 64-bit divisions are long subroutines on a GPU.

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>

#include "geometry.hpp"
#include "launch.hpp"
#include "tutti/base/error.hpp"

namespace tutti::cuda {

/// Calls body(first sample, samples, items) for as many samples at a time as have less than 2³¹ items: nearly
/// always once. Throws RunError where one sample has more: a count of 32 bits would leave out the rest.
template <class Body>
void for_samples(std::int64_t samples, std::int64_t items_per_sample, const Body& body) {
    if (items_per_sample == 0) return;
    constexpr std::int64_t most_items = (std::int64_t{1} << 31) - 1;
    if (items_per_sample > most_items)
        throw RunError(
            "a sample's part in a layer is too large for a GPU: " + std::to_string(items_per_sample) +
                " elements or vectors, and a kernel takes " + std::to_string(most_items),
            "make the samples smaller (crop, resize), or set device: cpu");
    const std::int64_t most = most_items / items_per_sample;
    for (std::int64_t first = 0; first < samples; first += most) {
        const std::int64_t count = std::min(most, samples - first);
        body(first, count, static_cast<unsigned>(count * items_per_sample));
    }
}

/// A size within a launch.
inline unsigned narrow(std::int64_t size) {
    assert(0 <= size && size <= std::numeric_limits<unsigned>::max());
    return static_cast<unsigned>(size);
}

/// body(item) for each of `items`, all threads of the grid together. Launch with elementwise(items).
template <class Body>
__device__ inline void for_items(unsigned items, const Body& body) {
    for (unsigned item = static_cast<unsigned>(grid_thread()); item < items;
         item += static_cast<unsigned>(grid_threads()))
        body(item);
}

/// Where item `item` of samples × height × width × groups lies; a group is `lanes` channels.
struct Pixel {
    std::int64_t n;
    int h, w, channel;
};
__device__ inline Pixel pixel_of(unsigned item, int height, int width, int groups, int lanes) {
    const auto by_group = static_cast<unsigned>(groups), by_width = static_cast<unsigned>(width);
    const auto by_height = static_cast<unsigned>(height);
    const unsigned pixel = item / by_group, row = pixel / by_width;
    return {row / by_height, static_cast<int>(row % by_height), static_cast<int>(pixel % by_width),
            static_cast<int>(item % by_group) * lanes};
}

}  // namespace tutti::cuda
