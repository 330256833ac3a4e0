#include "backend.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class PatchesTest : public KernelTest {};
TUTTI_TEST_ON(PatchesTest, backends);

TEST_P(PatchesTest, are_frames_before_rows_before_columns_within_a_token_and_among_them) {
    const PatchShape s{.height = 4,
                       .width = 6,
                       .channels = 2,
                       .patch_height = 2,
                       .patch_width = 3,
                       .frames = 4,
                       .patch_frames = 2};
    auto x = tensor({2, 4, 4, 6, 2}), tokens = tensor({2, 8, 24}), again = tensor({2, 4, 4, 6, 2});
    std::vector<double> values(x.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    x = tensor({2, 4, 4, 6, 2}, values);
    ops_->extract_patches(s, x.view(), tokens.view());
    std::vector<double> expected;
    for (int n = 0; n < 2; ++n)
        for (int t = 0; t < 8; ++t)
            for (int e = 0; e < 24; ++e) {
                const int f = t / 4 * 2 + e / 12, h = t / 2 % 2 * 2 + e / 6 % 2, w = t % 2 * 3 + e / 2 % 3;
                expected.push_back((((n * 4 + f) * 4 + h) * 6 + w) * 2 + e % 2);
            }
    expect_equal(tokens, expected);
    ops_->join_patches(s, tokens.view(), again.view());
    expect_equal(again, values);
}

TEST_P(PatchesTest, of_many_elements_are_cut_among_threads_and_joined_again) {
    const PatchShape s{.height = 64, .width = 48, .channels = 3, .patch_height = 8, .patch_width = 16};
    auto x = random({5, 64, 48, 3}, 1), tokens = tensor({5, 24, 384}), again = tensor({5, 64, 48, 3});
    ops_->extract_patches(s, x.view(), tokens.view());
    EXPECT_NE(tokens.values(), x.values());
    ops_->join_patches(s, tokens.view(), again.view());
    EXPECT_EQ(again.values(), x.values());
}

TEST_P(PatchesTest, of_an_empty_batch_are_none_and_must_divide) {
    auto none = tensor({0, 4, 4, 1}), tokens = tensor({0, 4, 4});
    ops_->extract_patches({.height = 4, .width = 4, .channels = 1, .patch_height = 2, .patch_width = 2},
                          none.view(), tokens.view());
    EXPECT_THROW(ops_->extract_patches({.height = 4, .width = 4, .channels = 1, .patch_height = 3},
                                       none.view(), tokens.view()),
                 UsageError);
}

}  // namespace
}  // namespace tutti::test
