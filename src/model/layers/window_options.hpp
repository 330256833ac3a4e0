#pragma once
// Private to the layers with windows, convolutions and poolings: what they ask of their input and options,
// and how these become a shape. Errors are UsageErrors in the words of `kind`, "conv2d" say.

#include <algorithm>
#include <string>

#include "tutti/base/error.hpp"
#include "tutti/base/shape.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {

inline void require_image(const std::string& kind, const Shape& input) {
    if (input.rank() != 3)
        throw UsageError(kind + ": the input has shape " + to_string(input),
                         "an image [height, width, channels] is needed");
}

inline void require_at_least(const std::string& kind, const char* name, std::int64_t value,
                             std::int64_t least) {
    if (value < least)
        throw UsageError(kind + ": " + name + " is " + std::to_string(value),
                         "it must be at least " + std::to_string(least));
}

template <class Options>
void require_fit(const std::string& kind, const Shape& input, const Options& o, const char* remedy) {
    if (input[0] + 2 * o.padding_h < o.kernel_h || input[1] + 2 * o.padding_w < o.kernel_w)
        throw UsageError(kind + ": a kernel of " + to_string(Shape{o.kernel_h, o.kernel_w}) +
                             " does not fit into the input " + to_string(input),
                         remedy);
}

/// Of poolings, whose padding holds no values: every window must see some of the image.
inline void require_pool(const std::string& kind, const Shape& input, const Pool2dOptions& o) {
    if (std::min(o.kernel_h, o.kernel_w) < 1)
        throw UsageError(kind + ": kernel " + to_string(Shape{o.kernel_h, o.kernel_w}),
                         "its sides must be at least 1");
    if (std::min(o.stride_h, o.stride_w) < 1)
        throw UsageError(kind + ": stride " + to_string(Shape{o.stride_h, o.stride_w}),
                         "it must be at least 1");
    if (std::min(o.padding_h, o.padding_w) < 0 || 2 * o.padding_h > o.kernel_h ||
        2 * o.padding_w > o.kernel_w)
        throw UsageError(kind + ": padding " + to_string(Shape{o.padding_h, o.padding_w}),
                         "it must be between 0 and half of the kernel");
    require_fit(kind, input, o, "use a smaller kernel");
}

/// Height, width, kernel, stride and padding of `shape`.
template <class WindowShape, class Options>
void set_windows(WindowShape& shape, const Shape& input, const Options& o) {
    shape.height = input[0];
    shape.width = input[1];
    shape.kernel_h = o.kernel_h;
    shape.kernel_w = o.kernel_w;
    shape.stride_h = o.stride_h;
    shape.stride_w = o.stride_w;
    shape.padding_h = o.padding_h;
    shape.padding_w = o.padding_w;
}

}  // namespace tutti
