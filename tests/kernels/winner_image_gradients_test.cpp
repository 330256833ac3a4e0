// Both ways to the image's gradient against the definition, whichever of them this build's operator takes.
#include "winner_image_gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tutti::test {
namespace {

/// A convolution of 3×3 that moves by 1 with padding of 1, and pooling of 2×2.
struct WinnerCase {
    WinnerGradients p;
    std::vector<float> weight, dy, image;
    std::vector<unsigned char> winner;

    WinnerCase(std::int64_t in, std::int64_t out, std::int64_t size)
        : weight(elements(out * 9 * in)),
          dy(elements(size * size / 4 * out)),
          image(elements(size * size * in)) {
        p.in = in;
        p.out = out;
        p.windows_h = p.windows_w = size / 2;
        p.height = p.width = size;
        p.padding_h = p.padding_w = 1;
        p.row_step = 2 * p.row();
        p.column_step = 2;
        for (int k = 0; k < 4; ++k) p.places[k] = k / 2 * p.row() + k % 2;
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        for (float& one : weight) one = normal(random);
        for (float& one : dy) one = normal(random);
        for (std::size_t i = 0; i < dy.size(); ++i)
            winner.push_back(static_cast<unsigned char>(random() % 5 < 4 ? random() % 4 : 255));
    }

    void gather() {
        std::vector<float> ordered(weight.size()), sliced(elements(p.in * p.pixels()));
        std::vector<std::uint16_t> list(elements(4 * p.out * p.windows()));
        std::vector<std::int32_t> count(elements(4 * p.windows()));
        // In two ranges, as threads do.
        const std::int64_t slices = p.in / gathered_slice;
        order_winner_weights(p, weight.data(), slices / 2, slices, ordered.data());
        order_winner_weights(p, weight.data(), 0, slices / 2, ordered.data());
        list_passed(p, winner.data(), list.data(), count.data());
        gather_winner_image_gradients(p, ordered.data(), dy.data(), list.data(), count.data(), sliced.data());
        join_image(p, gathered_slice, sliced.data(), image.data());
    }
    void scatter() {
        std::vector<float> sliced(elements(p.in * p.pixels()));
        std::vector<Winner> list(elements(p.out * p.windows()));
        std::vector<std::int32_t> count(elements(p.out));
        list_winners(p, dy.data(), winner.data(), list.data(), count.data());
        scatter_winner_image_gradients(p, weight.data(), list.data(), count.data(), sliced.data());
        join_image(p, scattered_slice, sliced.data(), image.data());
    }
    /// The greatest difference from the definition in fp64.
    double error() const {
        std::vector<double> sums(image.size());
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(dy.size()); ++i) {
            const std::int64_t o = i % p.out, window = i / p.out;
            const int won = winner[static_cast<std::size_t>(i)];
            if (won > 3) continue;
            const std::int64_t top = window / p.windows_w * 2 + won / 2 - 1;
            const std::int64_t left = window % p.windows_w * 2 + won % 2 - 1;
            for (std::int64_t tap = 0; tap < 9; ++tap) {
                const std::int64_t h = top + tap / 3, w = left + tap % 3;
                if (h < 0 || h >= p.height || w < 0 || w >= p.width) continue;
                for (std::int64_t c = 0; c < p.in; ++c)
                    sums[static_cast<std::size_t>((h * p.width + w) * p.in + c)] +=
                        double{dy[static_cast<std::size_t>(i)]} *
                        weight[static_cast<std::size_t>((o * 9 + tap) * p.in + c)];
            }
        }
        double most = 0;
        for (std::size_t i = 0; i < sums.size(); ++i) most = std::max(most, std::abs(sums[i] - image[i]));
        return most;
    }

  private:
    static std::size_t elements(std::int64_t count) { return static_cast<std::size_t>(count); }
};

TEST(WinnerImageGradients, agree_with_the_definition_in_both_ways) {
    for (const std::int64_t in : {16, 32, 48})  // slices of one vector and of two, and both
        for (const std::int64_t out : {1, 7, 24}) {
            SCOPED_TRACE(testing::Message() << in << " -> " << out);
            WinnerCase one(in, out, 8);
            one.gather();
            EXPECT_LE(one.error(), 1e-4);
            one.image.assign(one.image.size(), std::nanf(""));
            one.scatter();
            EXPECT_LE(one.error(), 1e-4);
        }
}

}  // namespace
}  // namespace tutti::test
