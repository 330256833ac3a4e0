#include "tutti/input/transforms.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "counting_images.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/loader.hpp"

namespace tutti {
namespace {

using test::CountingImages;
using test::image_at;
using test::transformed;
using Kind = TransformSpec::Kind;
using Specs = std::vector<TransformSpec>;

TransformSpec flip(Kind kind, double p = 1) {
    TransformSpec spec;
    spec.kind = kind;
    spec.p = p;
    return spec;
}

TransformSpec crop(Kind kind, std::int64_t height, std::int64_t width, std::int64_t padding = 0) {
    TransformSpec spec;
    spec.kind = kind;
    spec.height = height;
    spec.width = width;
    spec.padding = padding;
    return spec;
}

TEST(Transforms, flips_turn_the_columns_or_the_rows_of_pixels_around) {
    // 2 x 3 pixels of two channels: 1 2 | 3 4 | 5 6 above 7 8 | 9 10 | 11 12.
    EXPECT_EQ(image_at(*transformed({2, 3, 2}, {flip(Kind::horizontal_flip)}), 0),
              (std::vector{5, 6, 3, 4, 1, 2, 11, 12, 9, 10, 7, 8}));
    EXPECT_EQ(image_at(*transformed({2, 3, 2}, {flip(Kind::vertical_flip)}), 0),
              (std::vector{7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(image_at(*transformed({3, 1, 1}, {flip(Kind::vertical_flip)}), 0), (std::vector{3, 2, 1}));
}

// The loader waits the longer for files the longer reading takes.
TEST(Transforms, tell_the_time_that_they_took_without_that_of_reading) {
    TransformSpec crop;
    crop.kind = Kind::center_crop;
    crop.height = crop.width = 2;
    for (const TransformSpec& spec : {flip(Kind::horizontal_flip), crop}) {
        auto images = std::make_unique<CountingImages>(Shape{64, 64, 3});
        images->takes = std::chrono::milliseconds(20);
        const auto data = transform_images(std::move(images), std::vector{spec}, 7, TransformUse::training);
        std::vector<std::byte> bytes(static_cast<std::size_t>(data->info().sample_bytes()));
        std::vector<std::int64_t> labels(1);
        const std::vector<std::int64_t> indices{0};
        std::chrono::duration<double> transforming{0};
        const auto begin = std::chrono::steady_clock::now();
        data->read_at({0, indices, &transforming}, indices, bytes, labels);
        const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
        EXPECT_GT(transforming.count(), 0);
        EXPECT_GE((all - transforming).count(), 0.02);
    }
}

TEST(Transforms, flips_know_pixels_of_every_size) {
    for (const std::int64_t channels : {1, 2, 3, 4, 5})
        for (const DType dtype : {DType::u8, DType::f32}) {
            const auto values = image_at(
                *transformed({1, 3, channels}, {flip(Kind::horizontal_flip)}, TransformUse::training, dtype),
                0);
            std::vector<int> expected;
            for (int pixel : {2, 1, 0})
                for (int c = 0; c < channels; ++c)
                    expected.push_back(1 + pixel * static_cast<int>(channels) + c);
            EXPECT_EQ(values, expected) << channels;
        }
}

TEST(Transforms, a_center_crop_begins_where_torchvision_begins) {
    // round((image - crop) / 2), halves to even: 1 -> 0, 3 -> 2, 5 -> 2.
    const auto first = [](std::int64_t image, std::int64_t size) {
        return image_at(*transformed({1, image, 1}, {crop(Kind::center_crop, 1, size)}), 0).front() - 1;
    };
    EXPECT_EQ(first(4, 2), 1);
    EXPECT_EQ(first(4, 3), 0);
    EXPECT_EQ(first(6, 3), 2);
    EXPECT_EQ(first(8, 3), 2);
    EXPECT_EQ(first(4, 4), 0);
}

TEST(Transforms, a_random_crop_takes_every_place_of_the_padded_image_alike) {
    // 2 x 2 pixels 1 2 above 3 4, one pixel of zeros around: nine crops of 2 x 2.
    const auto data = transformed({2, 2, 1}, {crop(Kind::random_crop, 2, 2, 1)});
    std::map<std::vector<int>, int> seen;
    constexpr int draws = 9000;
    for (int p = 0; p < draws; ++p) ++seen[image_at(*data, p)];
    const std::set<std::vector<int>> expected{{0, 0, 0, 1}, {0, 0, 1, 2}, {0, 0, 2, 0},
                                              {0, 1, 0, 3}, {1, 2, 3, 4}, {2, 0, 4, 0},
                                              {0, 3, 0, 0}, {3, 4, 0, 0}, {4, 0, 0, 0}};
    ASSERT_EQ(seen.size(), expected.size());
    for (const auto& [image, count] : seen) {
        EXPECT_TRUE(expected.contains(image));
        EXPECT_NEAR(count, draws / 9, 5 * 32) << "five standard deviations";
    }
}

TEST(Transforms, a_flip_of_p_is_made_at_as_many_positions_and_differs_between_epochs) {
    const auto data = transformed({1, 2, 1}, {flip(Kind::horizontal_flip, 0.25)});
    int flipped = 0, same = 0;
    for (int p = 0; p < 4000; ++p) {
        const bool first = image_at(*data, p, 0).front() == 2, second = image_at(*data, p, 1).front() == 2;
        flipped += first ? 1 : 0;
        same += first == second ? 1 : 0;
    }
    EXPECT_NEAR(flipped, 1000, 5 * 28);
    EXPECT_NEAR(same, 4000 * 0.625, 5 * 31);
}

TEST(Transforms, transforms_of_one_list_draw_numbers_of_their_own) {
    const auto data =
        transformed({1, 2, 1}, {flip(Kind::horizontal_flip, 0.5), flip(Kind::horizontal_flip, 0.5)});
    int turned = 0;
    for (int p = 0; p < 1000; ++p) turned += image_at(*data, p).front() == 2 ? 1 : 0;
    EXPECT_NEAR(turned, 500, 5 * 16) << "the same numbers would turn every image back";
}

TEST(Transforms, erasing_leaves_a_rectangle_of_the_value) {
    TransformSpec erase = flip(Kind::random_erasing);
    erase.value = 1;
    const auto data = transformed({8, 8, 1}, {erase});
    std::set<std::vector<int>> seen;
    for (int p = 0; p < 50; ++p) {
        const std::vector<int> image = image_at(*data, p);
        int top = 8, left = 8, bottom = -1, right = -1, erased = 0;
        for (int i = 0; i < 64; ++i) {
            if (image[static_cast<std::size_t>(i)] != 255) {
                ASSERT_EQ(image[static_cast<std::size_t>(i)], i + 1);
                continue;
            }
            ++erased;
            top = std::min(top, i / 8);
            bottom = std::max(bottom, i / 8);
            left = std::min(left, i % 8);
            right = std::max(right, i % 8);
        }
        ASSERT_GT(erased, 0);
        EXPECT_EQ(erased, (bottom - top + 1) * (right - left + 1)) << "not a whole rectangle";
        EXPECT_LE(erased, 64 * 0.33 + 8) << "sides are rounded";
        seen.insert(image);
    }
    EXPECT_GT(seen.size(), 40u);
}

TEST(Transforms, evaluation_crops_in_the_centre_and_leaves_the_rest_out) {
    const Specs specs{flip(Kind::horizontal_flip), flip(Kind::vertical_flip),
                      crop(Kind::random_crop, 2, 2, 1), flip(Kind::random_erasing)};
    const auto data = transformed({4, 4, 1}, specs, TransformUse::evaluation);
    for (int p = 0; p < 20; ++p) EXPECT_EQ(image_at(*data, p, p), (std::vector{6, 7, 10, 11}));
    // With the padding alone a crop larger than the image is possible.
    EXPECT_EQ(
        image_at(*transformed({1, 2, 1}, {crop(Kind::random_crop, 3, 4, 1)}, TransformUse::evaluation), 0),
        (std::vector{0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0}));
}

TEST(Transforms, crops_follow_each_other_and_set_the_shape) {
    const auto data = transformed({8, 8, 3}, {crop(Kind::center_crop, 6, 6), crop(Kind::center_crop, 4, 5),
                                              flip(Kind::horizontal_flip), crop(Kind::center_crop, 2, 1)});
    EXPECT_EQ(data->info().sample_shape, (Shape{2, 1, 3}));
    EXPECT_EQ(data->stored_sample_bytes(), 192);
    EXPECT_EQ(data->info().sample_bytes(), 6);
    // 8 -> 6 begins at (1, 1), 6x6 -> 4x5 at (1, 0), flipped about the middle column, 4x5 -> 2x1 at (1, 2):
    // row 1 + 1 + 1, column 1 + (4 - 2).
    const int first = 1 + (3 * 8 + 3) * 3, second = first + 24;
    EXPECT_EQ(image_at(*data, 0), (std::vector{first, first + 1, first + 2, second, second + 1, second + 2}));
}

TransformSpec multi_scale(std::int64_t side, std::vector<double> scales) {
    TransformSpec spec = crop(Kind::multi_scale_crop, side, side);
    spec.scales = std::move(scales);
    return spec;
}

TEST(Transforms, a_multi_scale_crop_is_a_cut_at_one_of_thirteen_places_and_evaluates_the_centre) {
    // 4 x 12 pixels in rows 1 …, 13 …, 25 …, 37 …. A 4 x 4 cut may begin in column 0, 2, 4, 6 or 8.
    const Specs specs{multi_scale(4, {1})};
    std::map<int, int> seen;
    const auto data = transformed({4, 12, 1}, specs);
    for (int p = 0; p < 2600; ++p) {
        const std::vector<int> image = image_at(*data, p);
        for (int i = 0; i < 16; ++i)
            ASSERT_EQ(image[static_cast<std::size_t>(i)], image[0] + i / 4 * 12 + i % 4);
        ++seen[image[0] - 1];
    }
    ASSERT_EQ(seen.size(), 5u);
    for (const auto& [column, places] : {std::pair{0, 3}, {2, 2}, {4, 3}, {6, 2}, {8, 3}})
        EXPECT_NEAR(seen[column], 200 * places, 5 * std::sqrt(200 * places)) << column;
    const auto evaluation = transformed({4, 12, 1}, specs, TransformUse::evaluation);
    for (int p = 0; p < 5; ++p) EXPECT_EQ(image_at(*evaluation, p).front(), 5);
}

TEST(Transforms, a_multi_scale_crop_gives_its_size_from_images_of_any_size_and_type) {
    const Specs specs{crop(Kind::center_crop, 5, 4), multi_scale(2, {1, 0.5}), flip(Kind::horizontal_flip)};
    for (const DType dtype : {DType::u8, DType::f32}) {
        const auto data = transformed({7, 6, 1}, specs, TransformUse::evaluation, dtype);
        EXPECT_EQ(data->info().sample_shape, (Shape{2, 2, 1}));
        const std::vector<int> image = image_at(*data, 0);
        // A gradient stays one, as even as rounding leaves it.
        EXPECT_NEAR(image[0] + image[3], image[1] + image[2], 1) << "each is rounded";
        EXPECT_GT(image[1], image[0]);
        EXPECT_GT(image[2], image[1]);
    }
    const auto larger =
        transformed({2, 3, 3}, {multi_scale(9, {1, 0.5})}, TransformUse::training, DType::f32);
    for (int p = 0; p < 30; ++p)
        for (const int value : image_at(*larger, p)) {
            EXPECT_GE(value, 1);
            EXPECT_LE(value, 18);
        }
}

TEST(Transforms, refuse_what_is_no_image_and_crops_that_do_not_fit) {
    const auto refused = [](Shape shape, const Specs& specs) -> std::string {
        try {
            transformed(shape, specs);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_EQ(refused({784}, {flip(Kind::horizontal_flip)}),
              "data.transforms: counting has samples of shape [784], but transforms are for images [height, "
              "width, channels]; remove data.transforms, or pack images");
    EXPECT_EQ(refused({4, 4, 1}, {crop(Kind::center_crop, 2, 2), crop(Kind::random_crop, 5, 2, 1)}),
              "data.transforms: {random_crop: {size: [5, 2], padding: 1}} does not fit into the images of "
              "counting, which are [2, 2, 1] there; use a smaller size or more padding");
    EXPECT_EQ(refused({4, 4, 1}, {crop(Kind::random_crop, 6, 6, 1)}), "accepted");
}

/// Batches by position: what each sample of an epoch looked like.
std::map<std::int64_t, std::vector<std::byte>> epoch_by_position(std::int64_t ranks, int workers,
                                                                 std::int64_t batch, std::int64_t cursor) {
    constexpr std::int64_t samples = 50;
    const auto data = transformed(
        {4, 4, 3},
        {flip(Kind::horizontal_flip, 0.5), crop(Kind::random_crop, 9, 9, 4), multi_scale(4, {1, 0.7, 0.4})},
        TransformUse::training, DType::u8, samples);
    std::map<std::int64_t, std::vector<std::byte>> seen;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        Loader loader(*data, batch, workers, 3);
        loader.start(
            epoch_order({.samples = samples, .world_size = ranks, .epoch = 2}),
            epoch_windows(
                {.cursor = cursor, .limit = samples, .batch_size = batch, .world_size = ranks, .rank = rank}),
            2);
        while (const auto got = loader.next())
            for (std::size_t i = 0; i < got->positions.size(); ++i)
                seen[got->positions[i]] = {got->samples.begin() + static_cast<std::ptrdiff_t>(48 * i),
                                           got->samples.begin() + static_cast<std::ptrdiff_t>(48 * (i + 1))};
    }
    return seen;
}

TEST(Transforms, that_move_pixels_are_refused_for_data_with_targets) {
    const auto with_targets = [](const Specs& specs, TransformUse use,
                                 const std::optional<PlaceTargets>& place = {}) {
        auto images = std::make_unique<CountingImages>(Shape{4, 4, 1}, 3);
        images->give_targets(2);
        return transform_images(std::move(images), specs, 7, use, place);
    };
    const TransformSpec erasing{.kind = Kind::random_erasing, .p = 1};
    const auto allowed = with_targets({erasing}, TransformUse::training);
    EXPECT_EQ(allowed->info().targets, 2);
    EXPECT_EQ(std::vector(allowed->targets().begin(), allowed->targets().end()), std::vector(6, 0.5F));
    const auto message = [&](const TransformSpec& moving, const std::optional<PlaceTargets>& place,
                             TransformUse use = TransformUse::training) -> std::string {
        try {
            with_targets({erasing, moving}, use, place);
            return "";
        } catch (const UsageError& error) {
            return error.what();
        }
    };
    for (const auto& moving :
         {flip(Kind::horizontal_flip), flip(Kind::vertical_flip, 0.5), crop(Kind::random_crop, 4, 4, 2),
          crop(Kind::center_crop, 2, 2), multi_scale(4, {1})}) {
        const bool flips = moving.kind == Kind::horizontal_flip || moving.kind == Kind::vertical_flip;
        const std::string refused =
            "data.transforms: " + to_text(moving) +
            " moves pixels, but counting has targets, which may be places in the image and would not move; "
            "remove it: ";
        EXPECT_EQ(message(moving, {}),
                  refused +
                      "only random_erasing is for any targets; flips also for those of a locator, and "
                      "for two that are named x and y (x_pix, y_pix; cx, cy)");
        // Evaluations make no flips, and crop as training does.
        EXPECT_EQ(message(moving, {}, TransformUse::evaluation), flips ? "" : message(moving, {}));
        EXPECT_EQ(message(moving, PlaceTargets{.x = 0, .y = 1}),
                  flips ? "" : refused + "of the transforms only flips and random_erasing are for places");
    }
}

/// One pixel of each image is 255; its targets: the number of the image, and x and y of that pixel.
class Spots final : public Dataset {
  public:
    Spots() {
        info_.samples = 40;
        info_.sample_shape = {5, 7, 1};
        info_.targets = 3;
        info_.labelled = false;
        for (std::int64_t i = 0; i < info_.samples; ++i)
            for (const std::int64_t target : {i, i % 7, i / 7 % 5})
                targets_.push_back(static_cast<float>(target));
    }
    std::span<const float> targets() const override { return targets_; }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "spots"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> /*labels*/) const override {
        std::ranges::fill(samples, std::byte{0});
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const float* const of = targets_.data() + 3 * indices[i];
            samples[35 * i + static_cast<std::size_t>(7 * of[2] + of[1])] = std::byte{255};
        }
    }

  private:
    DatasetInfo info_;
    std::vector<float> targets_;
};

TEST(Transforms, bring_places_to_where_their_pixels_go) {
    for (const TransformUse use : {TransformUse::training, TransformUse::evaluation}) {
        const auto data = transform_images(
            std::make_unique<Spots>(),
            Specs{flip(Kind::vertical_flip, 0.5), flip(Kind::horizontal_flip, 0.5),
                  TransformSpec{.kind = Kind::random_erasing, .p = 0}, flip(Kind::vertical_flip, 0.3)},
            7, use, PlaceTargets{.x = 1, .y = 2});
        Loader loader(*data, 3, 2, 2);
        std::vector<std::int64_t> order(40);
        std::iota(order.rbegin(), order.rend(), 0);
        loader.start(order, epoch_windows({.limit = 40, .batch_size = 3}), 5);
        std::set<std::pair<bool, bool>> moves;
        std::int64_t seen = 0;
        while (const auto batch = loader.next())
            for (std::int64_t i = 0; i < batch->window.count; ++i, ++seen) {
                const auto image = batch->samples.subspan(static_cast<std::size_t>(35 * i), 35);
                const auto of = batch->targets.subspan(static_cast<std::size_t>(3 * i), 3);
                EXPECT_EQ(of[0], static_cast<float>(39 - seen));
                EXPECT_EQ(image[static_cast<std::size_t>(7 * of[2] + of[1])], std::byte{255});
                const std::int64_t index = 39 - seen;
                moves.insert(
                    {of[1] != static_cast<float>(index % 7), of[2] != static_cast<float>(index / 7 % 5)});
            }
        EXPECT_EQ(seen, 40);
        EXPECT_EQ(moves.size(), use == TransformUse::training ? 4U : 1U);
    }
}

TEST(Transforms, do_not_depend_on_ranks_workers_batches_or_where_an_epoch_goes_on) {
    const auto one = epoch_by_position(1, 0, 8, 0);
    ASSERT_EQ(one.size(), 50u);
    EXPECT_EQ(epoch_by_position(1, 2, 8, 0), one);
    EXPECT_EQ(epoch_by_position(2, 2, 5, 0), one);
    EXPECT_EQ(epoch_by_position(3, 1, 1, 0), one);
    auto rest = one;
    rest.erase(rest.begin(), rest.find(24));
    EXPECT_EQ(epoch_by_position(2, 0, 3, 24), rest);
}

}  // namespace
}  // namespace tutti
