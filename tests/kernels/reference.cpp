#include "reference.hpp"

#include <gtest/gtest.h>

namespace tutti::test {
namespace {

std::size_t index(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

}  // namespace

Extents::Extents(const LinearShape& shape, std::int64_t batch)
    : x{batch, shape.in}, weight{shape.out, shape.in}, bias{shape.out}, y{batch, shape.out} {}

Extents::Extents(const Conv2dShape& shape, std::int64_t batch)
    : x{batch, shape.height, shape.width, shape.in},
      weight{shape.out, shape.kernel_h, shape.kernel_w, shape.in / shape.groups},
      bias{shape.out},
      y{batch, shape.out_height(), shape.out_width(), shape.out} {}

void for_each_dot_product(const LinearShape& shape, std::int64_t batch, const VisitDotProduct& visit) {
    for (std::int64_t n = 0; n < batch; ++n)
        for (std::int64_t o = 0; o < shape.out; ++o)
            visit(index(n * shape.in), index(o * shape.in), index(n * shape.out + o), index(shape.in));
}

void for_each_dot_product(const Conv2dShape& s, std::int64_t batch, const VisitDotProduct& visit) {
    const std::int64_t group_in = s.in / s.groups, group_out = s.out / s.groups;
    for (std::int64_t n = 0; n < batch; ++n)
        for (std::int64_t oh = 0; oh < s.out_height(); ++oh)
            for (std::int64_t ow = 0; ow < s.out_width(); ++ow)
                for (std::int64_t o = 0; o < s.out; ++o)
                    for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
                        for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                            const std::int64_t h = oh * s.stride_h + kh - s.padding_h;
                            const std::int64_t w = ow * s.stride_w + kw - s.padding_w;
                            if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
                            visit(index(((n * s.height + h) * s.width + w) * s.in + o / group_out * group_in),
                                  index(((o * s.kernel_h + kh) * s.kernel_w + kw) * group_in),
                                  index(((n * s.out_height() + oh) * s.out_width() + ow) * s.out + o),
                                  index(group_in));
                        }
}

void expect_sums(const TestTensor& tensor, const Sums& expected, double unit_roundoff) {
    ASSERT_EQ(tensor.size(), expected.size());
    const std::vector<double> values = tensor.values();
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double gamma = (expected[i].terms + 1) * unit_roundoff;
        ASSERT_NEAR(values[i], expected[i].value, 2 * gamma * expected[i].magnitude) << "element " << i;
    }
}

}  // namespace tutti::test
