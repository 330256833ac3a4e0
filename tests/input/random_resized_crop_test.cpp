#include "input/random_resized_crop.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Cut = RandomResizedCrop::Cut;

TransformSpec crop_to(std::int64_t height, std::int64_t width) {
    TransformSpec result;
    result.kind = TransformSpec::Kind::random_resized_crop;
    result.height = height;
    result.width = width;
    result.scale = {0.08, 1};
    result.ratio = {3.0 / 4, 4.0 / 3};
    return result;
}

RandomStream numbers_of(std::uint64_t position) {
    return {3, RandomPlace::augmentation, 1, position};
}

TEST(RandomResizedCrop, DrawsAreasShapesAndPlacesAlike) {
    constexpr int draws = 20000;
    const RandomResizedCrop crop(crop_to(224, 224), 1000, 1200, 3, DType::u8);
    double area = 0, square = 0, log_shape = 0, down = 0, right = 0;
    for (std::uint64_t p = 0; p < draws; ++p) {
        const Cut cut = crop.random_cut(numbers_of(p), 64);
        EXPECT_GE(cut.top, 0);
        EXPECT_GE(cut.left, 0);
        EXPECT_LE(cut.top + cut.height, 1000);
        EXPECT_LE(cut.left + cut.width, 1200);
        const double part = static_cast<double>(cut.height * cut.width) / (1000 * 1200);
        const double shape = static_cast<double>(cut.width) / static_cast<double>(cut.height);
        EXPECT_GE(part, 0.0795);
        EXPECT_GE(shape, 0.745);
        EXPECT_LE(shape, 1.345);
        area += part / draws;
        square += part * part / draws;
        log_shape += std::log(shape) / draws;
        if (cut.height < 1000)
            down += static_cast<double>(cut.top) / static_cast<double>(1000 - cut.height) / draws;
        if (cut.width < 1200)
            right += static_cast<double>(cut.left) / static_cast<double>(1200 - cut.width) / draws;
    }
    // Of 100,000 draws of torchvision 0.29's RandomResizedCrop.get_params for such an image: the means of the
    // area, of its square, of log(width / height), and of where a cut begins in what is left beside it.
    EXPECT_NEAR(area, 0.4632, 0.006);
    EXPECT_NEAR(square, 0.2671, 0.006);
    EXPECT_NEAR(log_shape, 0.0252, 0.005);
    EXPECT_NEAR(down, 0.4989, 0.01);
    EXPECT_NEAR(right, 0.4991, 0.01);
}

TEST(RandomResizedCrop, TakesTheCentreWhereNoCutFits) {
    // A line: no cut of at least half its area has such a shape. As get_params gives them.
    TransformSpec line = crop_to(8, 8);
    line.scale = {0.5, 1};
    EXPECT_EQ(RandomResizedCrop(line, 9, 400, 1, DType::u8).random_cut(numbers_of(0), 0),
              (Cut{9, 12, 0, 194}));
    EXPECT_EQ(RandomResizedCrop(line, 401, 9, 1, DType::u8).random_cut(numbers_of(0), 0),
              (Cut{12, 9, 194, 0}));
    // One whose shape is in the range, from an image that is too large for its own area.
    line.scale = {1, 1};
    line.ratio = {1, 1};
    EXPECT_EQ(RandomResizedCrop(line, 9, 9, 1, DType::u8).random_cut(numbers_of(0), 0), (Cut{9, 9, 0, 0}));
    // Two rows of no column.
    line.scale = {0.04, 0.04};
    line.ratio = {0.25, 0.25};
    EXPECT_EQ(RandomResizedCrop(line, 4, 4, 1, DType::u8).random_cut(numbers_of(0), 0), (Cut{4, 1, 0, 1}));
}

TEST(RandomResizedCrop, DrawsAtItsAddressAlone) {
    const RandomResizedCrop crop(crop_to(8, 8), 31, 40, 1, DType::u8);
    std::set<std::uint64_t> differ;
    for (std::uint64_t p = 0; p < 50; ++p) {
        EXPECT_EQ(crop.random_cut(numbers_of(p), 64), crop.random_cut(numbers_of(p), 64));
        if (crop.random_cut(numbers_of(p), 64) != crop.random_cut(numbers_of(p), 128)) differ.insert(p);
    }
    EXPECT_GT(differ.size(), 40u);
}

TEST(RandomResizedCrop, EvaluatesAPartOfTheCentre) {
    // Resize(256), CenterCrop(224) of 256 × 256: 16 from each side.
    EXPECT_EQ(RandomResizedCrop(crop_to(224, 224), 256, 256, 3, DType::u8).central_cut(),
              (Cut{224, 224, 16, 16}));
    // The shape is the result's: 100 × 50 of 100 × 200 at most.
    TransformSpec high = crop_to(8, 4);
    high.center = 1;
    EXPECT_EQ(RandomResizedCrop(high, 100, 200, 3, DType::u8).central_cut(), (Cut{100, 50, 0, 75}));
    high.center = 0.5;
    EXPECT_EQ(RandomResizedCrop(high, 100, 200, 3, DType::u8).central_cut(), (Cut{50, 25, 25, 88}));
    EXPECT_EQ(RandomResizedCrop(high, 1, 1, 3, DType::u8).central_cut(), (Cut{1, 1, 0, 0}));
}

TEST(RandomResizedCrop, EveryCutCanBeApplied) {
    for (const auto& [height, width] : {std::pair{1, 1}, {2, 9}, {13, 11}, {40, 17}})
        for (const auto& [type, least] : {std::pair{DType::u8, 0.75}, {DType::f32, 1e-300}}) {
            TransformSpec wide = crop_to(5, 7);
            wide.ratio = {least, 1 / least};
            const RandomResizedCrop crop(wide, height, width, 2, type);
            const std::vector<std::byte> image(static_cast<std::size_t>(height * width) * 2 * size_of(type));
            std::vector<std::byte> memory(crop.working_bytes()), result(70 * size_of(type));
            for (std::uint64_t p = 0; p < 300; ++p)
                crop.apply(crop.random_cut(numbers_of(p), 0), image.data(), memory.data(), result.data());
            crop.apply(crop.central_cut(), image.data(), memory.data(), result.data());
        }
}

}  // namespace
}  // namespace tutti
