#pragma once
// Convolutions that our own Winograd kernels in bf16 take.

#include <string>
#include <vector>

#include "tutti/device/ops.hpp"

namespace tutti::test {

inline Conv2dShape winograd_shape(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out,
                                  std::int64_t padding_h, std::int64_t padding_w, bool bias = true) {
    return {.height = height,
            .width = width,
            .in = in,
            .out = out,
            .kernel_h = 3,
            .kernel_w = 3,
            .padding_h = padding_h,
            .padding_w = padding_w,
            .bias = bias};
}

/// Even and odd sizes, images of padding alone but for a pixel, slabs of 64 columns that are full and not,
/// and few channels.
inline std::vector<Conv2dShape> winograd_shapes() {
    return {winograd_shape(4, 4, 64, 64, 1, 1),        winograd_shape(7, 5, 64, 80, 1, 1),
            winograd_shape(6, 9, 80, 64, 0, 0),        winograd_shape(3, 3, 64, 64, 0, 0),
            winograd_shape(1, 1, 64, 64, 1, 1),        winograd_shape(1, 2, 96, 144, 2, 1, false),
            winograd_shape(5, 4, 64, 64, 0, 2, false), winograd_shape(3, 6, 32, 64, 1, 1),
            winograd_shape(6, 2, 64, 32, 1, 1, false)};
}

inline std::string name(const Conv2dShape& s) {
    return to_string(Shape{s.height, s.width, s.in}) + " -> " + std::to_string(s.out) + ", padding " +
           to_string(Shape{s.padding_h, s.padding_w});
}

}  // namespace tutti::test
