#include "shape_checks.hpp"

#include <fmt/format.h>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

template <class AnyShape>
void require_at_least(const AnyShape& shape, const char* dimension, std::int64_t value, std::int64_t least) {
    if (value < least)
        throw UsageError(fmt::format("{}: {} is {}", describe(shape), dimension, value),
                         fmt::format("it must be at least {}", least));
}

void require_fit(const Conv2dShape& shape, const char* dimension, std::int64_t size, std::int64_t padding,
                 std::int64_t kernel) {
    if (kernel > size + 2 * padding)
        throw UsageError(fmt::format("{}: the kernel's {} {} exceeds the padded input's {}", describe(shape),
                                     dimension, kernel, size + 2 * padding),
                         "use a smaller kernel, more padding or less pooling before it");
}

void require_divisible(const Conv2dShape& shape, const char* dimension, std::int64_t channels) {
    if (channels % shape.groups != 0)
        throw UsageError(fmt::format("{}: {} channels {} cannot be cut into {} groups", describe(shape),
                                     dimension, channels, shape.groups),
                         "let groups divide both");
}

void check_windows(const std::vector<PoolWindow>& windows, std::int64_t size, const char* direction) {
    for (const PoolWindow& window : windows)
        if (window.begin < 0 || window.begin >= window.end || window.end > size || window.divisor < 1)
            throw UsageError(std::string("average_pool2d: ") + direction + " [" +
                                 std::to_string(window.begin) + ", " + std::to_string(window.end) +
                                 ") are not a window of " + std::to_string(size),
                             "use a smaller kernel or less padding");
}

}  // namespace

std::string describe(const LinearShape& shape) {
    return fmt::format("linear {} -> {}", shape.in, shape.out);
}

std::string describe(const Conv2dShape& shape) {
    return fmt::format("conv2d {} -> {}, kernel {}x{}, stride {}x{}, padding {}x{}, groups {} on {}x{}",
                       shape.in, shape.out, shape.kernel_h, shape.kernel_w, shape.stride_h, shape.stride_w,
                       shape.padding_h, shape.padding_w, shape.groups, shape.height, shape.width);
}

void check(const LinearShape& shape) {
    require_at_least(shape, "in", shape.in, 1);
    require_at_least(shape, "out", shape.out, 1);
}

void check(const Conv2dShape& shape) {
    require_at_least(shape, "height", shape.height, 1);
    require_at_least(shape, "width", shape.width, 1);
    require_at_least(shape, "in", shape.in, 1);
    require_at_least(shape, "out", shape.out, 1);
    require_at_least(shape, "kernel_h", shape.kernel_h, 1);
    require_at_least(shape, "kernel_w", shape.kernel_w, 1);
    require_at_least(shape, "stride_h", shape.stride_h, 1);
    require_at_least(shape, "stride_w", shape.stride_w, 1);
    require_at_least(shape, "padding_h", shape.padding_h, 0);
    require_at_least(shape, "padding_w", shape.padding_w, 0);
    require_at_least(shape, "groups", shape.groups, 1);
    require_fit(shape, "height", shape.height, shape.padding_h, shape.kernel_h);
    require_fit(shape, "width", shape.width, shape.padding_w, shape.kernel_w);
    require_divisible(shape, "input", shape.in);
    require_divisible(shape, "output", shape.out);
}

Conv2dShape convolution_of(const ConvTranspose2dShape& shape) {
    if (shape.output_padding_h < 0 || shape.output_padding_w < 0 ||
        shape.output_padding_h >= shape.stride_h || shape.output_padding_w >= shape.stride_w)
        throw UsageError("conv_transpose2d: output_padding " +
                             to_string(Shape{shape.output_padding_h, shape.output_padding_w}),
                         "it must be between 0 and the stride - 1");
    return {.height = shape.out_height(),
            .width = shape.out_width(),
            .in = shape.out,
            .out = shape.in,
            .kernel_h = shape.kernel_h,
            .kernel_w = shape.kernel_w,
            .stride_h = shape.stride_h,
            .stride_w = shape.stride_w,
            .padding_h = shape.padding_h,
            .padding_w = shape.padding_w,
            .groups = 1,
            .bias = false};
}

void check(const AveragePool2dShape& shape) {
    check_windows(shape.rows, shape.height, "rows");
    check_windows(shape.columns, shape.width, "columns");
}

}  // namespace tutti
