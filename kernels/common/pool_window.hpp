#pragma once
// The windows of max pooling.

#include <cstdint>

#include "host_device.hpp"

namespace tutti {

/// The part [h_begin, h_end) × [w_begin, w_end) of the window at one output place that lies inside the image,
/// and the input place of the whole window's corner, which may be negative. With padding < kernel the part is
/// never empty.
template <class Int>
struct PoolPart {
    Int top, left;
    Int h_begin, h_end, w_begin, w_end;
};

/// Shape: Pool2dShape, or another with its names and members of type Int.
template <class Shape, class Int>
HOST_DEVICE PoolPart<Int> pool_part(const Shape& s, Int oh, Int ow) {
    const Int top = oh * s.stride_h - s.padding_h, left = ow * s.stride_w - s.padding_w;
    return {top,
            left,
            top < 0 ? -top : 0,
            s.kernel_h < s.height - top ? s.kernel_h : s.height - top,
            left < 0 ? -left : 0,
            s.kernel_w < s.width - left ? s.kernel_w : s.width - left};
}

/// Equals do not take the place of the best so far; a NaN always does, as in PyTorch's max_pool2d.
template <class T>
HOST_DEVICE bool wins(T x, T best) {
    return x > best || x != x;
}

}  // namespace tutti
