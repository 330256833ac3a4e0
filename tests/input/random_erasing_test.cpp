#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "counting_images.hpp"

namespace tutti {
namespace {

TransformSpec erasing(double p, std::array<double, 2> scale, std::array<double, 2> ratio) {
    TransformSpec spec;
    spec.kind = TransformSpec::Kind::random_erasing;
    spec.p = p;
    spec.scale = scale;
    spec.ratio = ratio;
    spec.value = 0.5;
    return spec;
}

struct ErasedPart {
    std::int64_t top, left, height, width;
};

/// The rectangle around all pixels that differ; null where none does.
std::optional<ErasedPart> erased_part(const std::vector<float>& image, const std::vector<float>& whole,
                                      const Shape& shape) {
    std::int64_t top = shape[0], left = shape[1], bottom = -1, right = -1;
    for (std::size_t i = 0; i < whole.size(); ++i) {
        if (image[i] == whole[i]) continue;
        const std::int64_t pixel = static_cast<std::int64_t>(i) / shape[2];
        top = std::min(top, pixel / shape[1]);
        bottom = std::max(bottom, pixel / shape[1]);
        left = std::min(left, pixel % shape[1]);
        right = std::max(right, pixel % shape[1]);
    }
    if (bottom < 0) return {};
    return ErasedPart{top, left, bottom - top + 1, right - left + 1};
}

TEST(RandomErasing, fills_all_channels_of_a_rectangle_and_nothing_else) {
    const Shape shape{24, 20, 3};
    for (const DType dtype : {DType::u8, DType::f32}) {
        SCOPED_TRACE(name_of(dtype));
        const float filled = dtype == DType::u8 ? 128 : 0.5F;
        const auto whole =
            test::image_at<float>(*test::transformed(shape, {}, TransformUse::training, dtype), 0);
        const auto data =
            test::transformed(shape, {erasing(1, {0.05, 0.3}, {0.3, 3.3})}, TransformUse::training, dtype);
        for (int p = 0; p < 50; ++p) {
            const auto image = test::image_at<float>(*data, p);
            const auto part = erased_part(image, whole, shape);
            ASSERT_TRUE(part);
            for (std::int64_t i = 0; i < shape.count(); ++i) {
                const std::int64_t y = i / 3 / 20 - part->top, x = i / 3 % 20 - part->left;
                const bool is_inside = y >= 0 && y < part->height && x >= 0 && x < part->width;
                const auto at = static_cast<std::size_t>(i);
                ASSERT_EQ(image[at], is_inside ? filled : whole[at]) << "position " << p << " element " << i;
            }
        }
    }
}

TEST(RandomErasing, draws_how_often_how_much_what_shape_and_where) {
    constexpr int draws = 2000;
    const Shape shape{64, 64, 1};
    const auto whole =
        test::image_at<float>(*test::transformed(shape, {}, TransformUse::training, DType::f32), 0);
    const auto data =
        test::transformed(shape, {erasing(0.5, {0.2, 0.3}, {1, 3})}, TransformUse::training, DType::f32);
    double erased = 0, area = 0, log_ratio = 0, down = 0, right = 0, both = 0;
    for (int p = 0; p < draws; ++p) {
        const auto part = erased_part(test::image_at<float>(*data, p), whole, shape);
        if (!part) continue;
        const auto height = static_cast<double>(part->height), width = static_cast<double>(part->width);
        const double share = height * width / 4096;
        ASSERT_GE(share, 0.19) << "sides are rounded";
        ASSERT_LE(share, 0.312);
        // Where it begins, of what is left beside it: uniform in [-1, 1].
        const double y = 2 * static_cast<double>(part->top) / (64 - height) - 1;
        const double x = 2 * static_cast<double>(part->left) / (64 - width) - 1;
        ++erased;
        area += share;
        log_ratio += std::log(height / width);
        down += y;
        right += x;
        both += x * y;
    }
    // Four standard deviations, and half a per cent for the rounding.
    EXPECT_NEAR(erased, draws / 2, 4 * std::sqrt(draws / 4));
    EXPECT_NEAR(area / erased, 0.25, 4 * 0.1 / std::sqrt(12 * erased) + 0.00125);
    EXPECT_NEAR(log_ratio / erased, std::log(3) / 2, 4 * std::log(3) / std::sqrt(12 * erased) + 0.005);
    EXPECT_NEAR(down / erased, 0, 4 / std::sqrt(3 * erased));
    EXPECT_NEAR(right / erased, 0, 4 / std::sqrt(3 * erased));
    EXPECT_NEAR(both / erased, 0, 4 / (3 * std::sqrt(erased))) << "one number for both places";
}

}  // namespace
}  // namespace tutti
