#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "masking_case.hpp"

namespace tutti::test {
namespace {

class RunningCellsTest : public MaskingCase {};
TUTTI_TEST_ON(RunningCellsTest, backends);

/// The contract's words, by maps of all tokens, as VideoMAE V2's program makes them.
std::vector<double> expected_cells(const DropoutAddress& address, const TubeMask& mask,
                                   const RunningCells& cells) {
    const std::vector<double> order = expected_order(address, mask);
    std::vector<double> decoded;
    for (std::size_t n = 0; n < address.positions.size(); ++n) {
        const RandomStream random(address.seed, RandomPlace::mask, static_cast<std::uint64_t>(address.epoch),
                                  static_cast<std::uint64_t>(address.positions[n]));
        const std::int64_t start = random.bits(static_cast<std::uint64_t>(mask.places))[0] % 4;
        const std::vector<bool> queue = {cells.dropped > 0, cells.dropped > 1, cells.dropped > 2, false};
        std::vector<bool> dropped;
        for (std::int64_t place = 0; place < mask.places; ++place)
            for (std::int64_t repeat = 0; repeat < mask.repeats; ++repeat) {
                const std::int64_t row = place / cells.columns, column = place % cells.columns;
                const std::int64_t in_cell = 2 * (row % 2) + column % 2;
                dropped.push_back(queue[static_cast<std::size_t>((in_cell + start + repeat) % 4)]);
            }
        const auto* const of_sample = order.data() + n * static_cast<std::size_t>(mask.tokens());
        decoded.insert(decoded.end(), of_sample, of_sample + mask.visible_tokens());
        std::copy_if(of_sample, of_sample + mask.tokens(), std::back_inserter(decoded),
                     [&](double token) { return !dropped[static_cast<std::size_t>(token)]; });
    }
    return decoded;
}

TEST_P(RunningCellsTest, keep_the_tokens_that_their_maps_keep) {
    const DropoutAddress address{.seed = 9, .epoch = 3, .positions = three_positions};
    struct Case {
        TubeMask mask;
        std::int64_t columns;
    };
    for (const auto& [mask, columns] :
         {Case{{4, 4, 2}, 2}, {{4, 8, 0}, 2}, {{8, 4, 5}, 4}, {{24, 12, 20}, 6}, {{196, 8, 176}, 14}})
        for (const std::int64_t dropped : {1, 2, 3}) {
            SCOPED_TRACE(testing::Message() << mask.places << " x " << mask.repeats << ", " << dropped);
            const RunningCells cells{columns, dropped};
            TestTensor order = order_of(address, mask);
            TestTensor decoded(DType::i64, {3, mask.visible_tokens() + cells.kept_tokens(mask)});
            ops_->running_cells(address, mask, cells, order.view(), decoded.view());
            const std::vector<double> expected = expected_cells(address, mask, cells);
            ASSERT_EQ(expected.size(), decoded.size());
            expect_equal(decoded, expected);
            // All that are said are hidden.
            const std::size_t row = decoded.size() / 3;
            const auto said = static_cast<std::size_t>(cells.said_tokens(mask));
            for (std::size_t n = 0; n < 3; ++n)
                for (std::size_t k = row - said; k < row; ++k) {
                    bool hidden = false;
                    for (auto t = static_cast<std::size_t>(mask.visible_tokens());
                         t < static_cast<std::size_t>(mask.tokens()); ++t)
                        hidden = hidden || order.get(n * static_cast<std::size_t>(mask.tokens()) + t) ==
                                               decoded.get(n * row + k);
                    ASSERT_TRUE(hidden);
                }
        }
    TestTensor no_order(DType::i64, {0, 16}), none(DType::i64, {0, 16});
    ops_->running_cells({.positions = {}}, {4, 4, 2}, {2, 2}, no_order.view(), none.view());
}

TEST_P(RunningCellsTest, all_four_starts_are_drawn) {
    const TubeMask mask{4, 4, 2};
    std::vector<std::int64_t> positions(64);
    std::iota(positions.begin(), positions.end(), 0);
    const DropoutAddress address{.seed = 1, .positions = positions};
    TestTensor order = order_of(address, mask), decoded(DType::i64, {64, 8 + 8});
    ops_->running_cells(address, mask, {2, 2}, order.view(), decoded.view());
    std::set<std::set<double>> patterns;
    for (std::size_t n = 0; n < 64; ++n) {
        std::set<double> kept;
        for (std::size_t k = 8; k < 16; ++k) kept.insert(decoded.get(n * 16 + k));
        EXPECT_EQ(kept.size(), 8U);
        patterns.insert(kept);
    }
    EXPECT_EQ(patterns.size(), 4U);
}

TEST_P(RunningCellsTest, orders_may_be_shorter_than_all_tokens) {
    // Three of four positions, the second of them visible; the last one is said.
    auto x = tensor({1, 1, 2}, {1, 2}), token = tensor({2}, {50, 60});
    auto positions = tensor({4, 2}, {100, 200, 300, 400, 500, 600, 700, 800});
    auto order = indices({1, 3}, {1, 3, 2}), y = tensor({1, 3, 2});
    ops_->fill_tokens_forward(x.view(), token.view(), positions.view(), order.view(), y.view());
    expect_equal(y, {301, 402, 750, 860, 550, 660});
    auto patches = tensor({1, 4, 2}, {0, 0, 0, 0, 1, 3, 0, 0}), prediction = tensor({1, 1, 2}, {0, 0});
    auto epsilon = tensor({1}, {1}), differences = tensor({1, 1, 2});
    ops_->patch_differences(prediction.view(), patches.view(), order.view(), epsilon.view(),
                            differences.view());
    const double out = 1 / (std::sqrt(2.0) + 1);
    expect_near(differences.values(), {out, -out}, 2 * unit_roundoff_);
}

}  // namespace
}  // namespace tutti::test
