#include "fp32_winograd_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "tile_vector.hpp"

namespace tutti::test {
namespace {

constexpr Fp32WinogradWindow by_1{3, 1}, three_by_2{3, 2}, four_by_2{4, 2};

TEST(Fp32WinogradWindow, CountsTheProductsThatAreLeft) {
    EXPECT_EQ(by_1.used(), 36);
    EXPECT_EQ(three_by_2.used(), 81);
    EXPECT_EQ(four_by_2.used(), 100);
}

TEST(Fp32WinogradWindow, EachPlaceIsInOnePhase) {
    for (const Fp32WinogradWindow& window : {by_1, three_by_2, four_by_2}) {
        std::multiset<std::int64_t> found;
        for (std::int64_t phase = 0; phase < window.phases(); ++phase)
            for (std::int64_t place = 0; place < 9; ++place)
                if (const std::int64_t in_window = window.find(phase, place);
                    in_window != Fp32WinogradWindow::none)
                    found.insert(in_window);
        EXPECT_EQ(std::ssize(found), window.places());
        EXPECT_EQ(std::ssize(std::set(found.begin(), found.end())), window.places());
    }
    // Odd rows and columns of the image meet the window's first row and column, which lie over the padding.
    EXPECT_EQ(four_by_2.find(3, 0), 0);
    EXPECT_EQ(four_by_2.find(0, 0), Fp32WinogradWindow::none);
    EXPECT_EQ(four_by_2.find(0, 8), 15);
    EXPECT_EQ(three_by_2.find(0, 4), 4);
    EXPECT_EQ(three_by_2.find(2, 1), 1);
}

TEST(Fp32WinogradWindow, TransformedItIsZeroWhereItIsNotUsed) {
    constexpr std::int64_t count = lanes<float>;
    for (const Fp32WinogradWindow& window : {by_1, three_by_2, four_by_2})
        for (std::int64_t phase = 0; phase < window.phases(); ++phase)
            for (const bool turned : {false, true}) {
                std::array<float, 9 * count> places{};
                std::array<float, fp32_winograd_products * count> transformed;
                for (std::int64_t place = 0; place < 9; ++place) {
                    const std::int64_t found = window.find(phase, turned ? 8 - place : place);
                    if (found != Fp32WinogradWindow::none)
                        std::fill_n(places.data() + place * count, count,
                                    static_cast<float>(1 + found * found));
                }
                transform_fp32_winograd_windows(places.data(), count, count, transformed.data(), count);
                for (std::int64_t product = 0; product < fp32_winograd_products; ++product)
                    EXPECT_EQ(transformed[static_cast<std::size_t>(product * count)] != 0,
                              window.uses(phase, product, turned))
                        << window.size << " by " << window.step << ", phase " << phase << ", product "
                        << product << (turned ? ", turned" : "");
            }
}

}  // namespace
}  // namespace tutti::test
