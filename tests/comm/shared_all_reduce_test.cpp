// Ranks as threads over plain memory: what the processes do over a mapping.

#include "shared_all_reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tree_sum.hpp"

namespace tutti {
namespace {

using Sizes = SharedAllReduce::Sizes;

/// Zeroed memory at a cache line's border.
class Region {
  public:
    Region(int ranks, const Sizes& sizes)
        : bytes_(SharedAllReduce::region_bytes(ranks, sizes)),
          data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes_ + 63) / 64 * 64))) {
        std::memset(data_.get(), 0, bytes_);
    }
    std::byte* data() const { return data_.get(); }

  private:
    struct Free {
        void operator()(std::byte* data) const { std::free(data); }
    };
    std::size_t bytes_;
    std::unique_ptr<std::byte, Free> data_;
};

void on_ranks(int ranks, const Sizes& sizes, const std::function<void(SharedAllReduce&, int)>& work) {
    const Region region(ranks, sizes);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
            SharedAllReduce all_reduce(region.data(), rank, ranks, sizes);
            work(all_reduce, rank);
        });
    for (std::thread& thread : threads) thread.join();
}

void finish(SharedAllReduce& all_reduce, std::uint64_t request) {
    while (!all_reduce.finished(request)) {
        all_reduce.progress();
        std::this_thread::yield();
    }
}

/// Values whose sum depends on the order of addition.
float inexact(int rank, std::size_t i) {
    return 1.0F / static_cast<float>(3 + 7 * rank) + static_cast<float>(i % 1013) / 7.0F;
}
std::vector<float> inexact(int rank, std::size_t count, std::size_t first) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = inexact(rank, first + i);
    return values;
}
std::vector<float> sums(int ranks, std::size_t count, std::size_t first) {
    std::vector<float> result(count);
    for (std::size_t i = 0; i < count; ++i)
        result[i] = test::tree_sum(0, ranks, [&](int rank) { return inexact(rank, first + i); });
    return result;
}

struct Setting {
    std::string name;
    int ranks;
    Sizes sizes;
};

class SharedAllReduceTest : public testing::TestWithParam<Setting> {};

TEST_P(SharedAllReduceTest, sums_along_a_tree_whatever_the_size) {
    const auto& [name, ranks, sizes] = GetParam();
    on_ranks(ranks, sizes, [&, ranks = ranks](SharedAllReduce& all_reduce, int rank) {
        for (const std::size_t count :
             std::vector<std::size_t>{1, 2, 15, 16, 17, 255, 256, 257, 1000, 5000}) {
            auto values = inexact(rank, count, 0);
            finish(all_reduce, all_reduce.issue(view_of(std::span(values)), ReduceOp::sum));
            EXPECT_EQ(values, sums(ranks, count, 0)) << count << " elements on rank " << rank;
        }
    });
}

TEST_P(SharedAllReduceTest, bits_do_not_depend_on_where_a_buffer_is_cut) {
    const auto& [name, ranks, sizes] = GetParam();
    const std::vector<std::size_t> cuts = {0, 1, 77, 1100, 1101, 4000};
    on_ranks(ranks, sizes, [&, ranks = ranks](SharedAllReduce& all_reduce, int rank) {
        auto values = inexact(rank, cuts.back(), 0);
        std::uint64_t last = 0;
        for (std::size_t k = 0; k + 1 < cuts.size(); ++k)
            last = all_reduce.issue(view_of(std::span(values).subspan(cuts[k], cuts[k + 1] - cuts[k])),
                                    ReduceOp::sum);
        finish(all_reduce, last);
        EXPECT_EQ(values, sums(ranks, cuts.back(), 0)) << "rank " << rank;
    });
}

TEST_P(SharedAllReduceTest, a_reduce_scatter_sums_the_own_block_along_a_tree) {
    const auto& [name, ranks, sizes] = GetParam();
    on_ranks(ranks, sizes, [&, ranks = ranks](SharedAllReduce& all_reduce, int rank) {
        for (const std::size_t count : std::vector<std::size_t>{1, 15, 16, 17, 257, 1500, 5000}) {
            const std::size_t whole = count * static_cast<std::size_t>(ranks);
            const std::size_t first = count * static_cast<std::size_t>(rank);
            const auto expected = sums(ranks, whole, 0);
            const std::vector<float> mine(expected.begin() + static_cast<std::ptrdiff_t>(first),
                                          expected.begin() + static_cast<std::ptrdiff_t>(first + count));
            auto input = inexact(rank, whole, 0);
            const auto before = input;
            std::vector<float> output(count);
            finish(all_reduce, all_reduce.issue_reduce_scatter(view_of(std::span(input)),
                                                               view_of(std::span(output)), ReduceOp::sum));
            EXPECT_EQ(output, mine) << count << " elements on rank " << rank;
            EXPECT_EQ(input, before) << "out of place the input stays";
            const auto own = std::span(input).subspan(first, count);
            finish(all_reduce,
                   all_reduce.issue_reduce_scatter(view_of(std::span(input)), view_of(own), ReduceOp::sum));
            EXPECT_TRUE(std::ranges::equal(own, mine)) << count << " in place on rank " << rank;
        }
    });
}

TEST_P(SharedAllReduceTest, an_all_gather_brings_every_block_of_any_type_among_other_requests) {
    const auto& [name, ranks, sizes] = GetParam();
    on_ranks(ranks, sizes, [&, ranks = ranks](SharedAllReduce& all_reduce, int rank) {
        for (const std::size_t count : std::vector<std::size_t>{1, 63, 64, 257, 1500, 5000}) {
            std::vector<unsigned char> expected;
            for (int of = 0; of < ranks; ++of)
                for (std::size_t i = 0; i < count; ++i)
                    expected.push_back(static_cast<unsigned char>(31 * static_cast<std::size_t>(of) + i));
            const auto first = expected.begin() + static_cast<std::ptrdiff_t>(count) * rank;
            std::vector<unsigned char> mine(first, first + static_cast<std::ptrdiff_t>(count));
            std::vector<unsigned char> output(expected.size()), in_place(expected.size());
            const auto own = std::span(in_place).subspan(count * static_cast<std::size_t>(rank), count);
            std::ranges::copy(mine, own.begin());
            auto values = inexact(rank, count, 0);
            all_reduce.issue_all_gather(view_of(std::span(mine)), view_of(std::span(output)));
            const auto sum = all_reduce.issue(view_of(std::span(values)), ReduceOp::sum);
            const auto last = all_reduce.issue_all_gather(view_of(own), view_of(std::span(in_place)));
            ASSERT_TRUE(last.has_value());
            finish(all_reduce, *last);
            EXPECT_TRUE(all_reduce.finished(sum));
            EXPECT_EQ(output, expected) << count << " bytes on rank " << rank;
            EXPECT_EQ(in_place, expected) << count << " bytes in place on rank " << rank;
            EXPECT_EQ(values, sums(ranks, count, 0));
        }
    });
}

TEST_P(SharedAllReduceTest, sums_are_used_piece_by_piece_and_what_was_made_of_them_reaches_every_rank) {
    const auto& [name, ranks, sizes] = GetParam();
    on_ranks(ranks, sizes, [&, ranks = ranks](SharedAllReduce& all_reduce, int rank) {
        for (const std::size_t count : std::vector<std::size_t>{1, 15, 16, 17, 257, 1500, 9000}) {
            const std::size_t whole = count * static_cast<std::size_t>(ranks);
            const std::size_t own = count * static_cast<std::size_t>(rank);
            const auto summed = sums(ranks, whole, 0);
            auto input = inexact(rank, whole, 0), values = inexact(rank, count, 0);
            std::vector<float> output(whole, 1.0F), expected(whole);
            for (std::size_t i = 0; i < whole; ++i) expected[i] = 1.0F - 0.25F * summed[i];
            std::int64_t used = 0;
            const auto use = [&](std::int64_t first, std::int64_t pieces) {
                EXPECT_EQ(first, used) << "in ascending order, each once";
                used = first + pieces;
                for (auto i = own + static_cast<std::size_t>(first); i < own + static_cast<std::size_t>(used);
                     ++i)
                    output[i] -= 0.25F * input[i];
                all_reduce.progress();  // an offer of a device that computes
            };
            const auto request = all_reduce.issue_reduce_then_gather(view_of(std::span(input)),
                                                                     view_of(std::span(output)), use);
            ASSERT_TRUE(request.has_value());
            const auto last = all_reduce.issue(view_of(std::span(values)), ReduceOp::sum);
            finish(all_reduce, last);
            EXPECT_TRUE(all_reduce.finished(*request));
            EXPECT_EQ(used, static_cast<std::int64_t>(count));
            EXPECT_EQ(output, expected) << count << " elements on rank " << rank;
            EXPECT_TRUE(std::ranges::equal(std::span(input).subspan(own, count),
                                           std::span(summed).subspan(own, count)));
            EXPECT_EQ(values, sums(ranks, count, 0));
        }
    });
}

TEST_P(SharedAllReduceTest, requests_finish_in_order_and_may_differ_in_type_and_operation) {
    const auto& [name, ranks, sizes] = GetParam();
    on_ranks(ranks, sizes, [&, ranks = ranks](SharedAllReduce& all_reduce, int rank) {
        for (int round = 0; round < 20; ++round) {
            std::vector<double> largest(300, rank), least(3, -rank);
            std::vector<std::int64_t> total(700, rank + round);
            all_reduce.issue(view_of(std::span(largest)), ReduceOp::max);
            const auto middle = all_reduce.issue(view_of(std::span(total)), ReduceOp::sum);
            const auto last = all_reduce.issue(view_of(std::span(least)), ReduceOp::min);
            finish(all_reduce, last);
            EXPECT_TRUE(all_reduce.finished(middle));
            EXPECT_EQ(largest, std::vector<double>(300, ranks - 1));
            EXPECT_EQ(total, std::vector<std::int64_t>(700, ranks * (ranks - 1) / 2 + ranks * round));
            EXPECT_EQ(least, std::vector<double>(3, 1 - ranks));
        }
    });
}

INSTANTIATE_TEST_SUITE_P(sizes, SharedAllReduceTest,
                         testing::Values(Setting{"two_ranks_whole_chunks", 2, {1024, 4, 4096}},
                                         Setting{"two_ranks_shares", 2, {1024, 4, 0}},
                                         Setting{"two_ranks_one_slot", 2, {256, 1, 0}},
                                         Setting{"three_ranks", 3, {1024, 2, 600}},
                                         Setting{"three_ranks_one_line", 3, {64, 3, 0}},
                                         Setting{"four_ranks", 4, {2048, 4, 1024}},
                                         Setting{"four_ranks_default", 4, {}}),
                         [](const auto& row) { return row.param.name; });

TEST(shared_all_reduce, waits_for_a_peer_that_has_not_issued_and_goes_on_when_it_has) {
    const Sizes sizes{256, 2, 0};
    const Region region(2, sizes);
    SharedAllReduce first(region.data(), 0, 2, sizes), second(region.data(), 1, 2, sizes);
    std::vector<float> a(500, 1), b(500, 2);
    const auto request = first.issue(view_of(std::span(a)), ReduceOp::sum);
    for (int poll = 0; poll < 10; ++poll) first.progress();
    EXPECT_FALSE(first.finished(request));
    EXPECT_EQ(a, std::vector<float>(500, 1));

    second.issue(view_of(std::span(b)), ReduceOp::sum);
    for (int poll = 0; poll < 100 && !(first.finished(request) && second.finished(request)); ++poll) {
        second.progress();
        first.progress();
    }
    EXPECT_EQ(a, std::vector<float>(500, 3));
    EXPECT_EQ(b, std::vector<float>(500, 3));
}

TEST(shared_all_reduce, uses_no_sum_before_a_peer_has_its_part_in_it_and_none_after_stop) {
    const Sizes sizes{256, 2, 0};
    const Region region(2, sizes);
    SharedAllReduce first(region.data(), 0, 2, sizes), second(region.data(), 1, 2, sizes);
    std::vector<float> a(400, 1), b(400, 2), a_out(400), b_out(400);
    std::int64_t a_used = 0, b_used = 0;
    const auto request =
        first.issue_reduce_then_gather(view_of(std::span(a)), view_of(std::span(a_out)),
                                       [&](std::int64_t, std::int64_t count) { a_used += count; });
    for (int poll = 0; poll < 10; ++poll) first.progress();
    EXPECT_EQ(a_used, 0);
    second.issue_reduce_then_gather(view_of(std::span(b)), view_of(std::span(b_out)),
                                    [&](std::int64_t, std::int64_t count) { b_used += count; });
    second.progress();
    EXPECT_EQ(b_used, 2 * 32) << "the first rank has staged two chunks, which hold 32 of each block";
    first.stop("given up");
    for (int poll = 0; poll < 10; ++poll) {
        first.progress();
        second.progress();
    }
    EXPECT_EQ(a_used, 0);
    EXPECT_EQ(b_used, 2 * 32);
    EXPECT_FALSE(first.finished(*request));
}

TEST(shared_all_reduce, names_both_requests_where_ranks_issue_different_ones_and_adds_nothing) {
    const Sizes sizes{256, 2, 0};
    std::vector<float> a(100, 1), b(100, 2), half(50);
    using Issue = std::function<void(SharedAllReduce&)>;
    const Issue most = [&](SharedAllReduce& second) { second.issue(view_of(std::span(b)), ReduceOp::max); };
    const Issue fewer = [&](SharedAllReduce& second) {
        second.issue(view_of(std::span(b).first(99)), ReduceOp::sum);
    };
    const Issue scatter = [&](SharedAllReduce& second) {
        second.issue_reduce_scatter(view_of(std::span(b)), view_of(std::span(half)), ReduceOp::sum);
    };
    for (const auto& [issue, words] :
         std::vector<std::pair<Issue, std::string>>{{most, "all_reduce of 100 f32 (max)"},
                                                    {fewer, "all_reduce of 99 f32 (sum)"},
                                                    {scatter, "reduce_scatter of 50 f32 a rank (sum)"}}) {
        const Region region(2, sizes);
        SharedAllReduce first(region.data(), 0, 2, sizes), second(region.data(), 1, 2, sizes);
        // After some that agree: no place is special.
        std::vector<float> c(300, 1), d(300, 2);
        first.issue(view_of(std::span(c)), ReduceOp::sum);
        second.issue(view_of(std::span(d)), ReduceOp::sum);
        const auto request = first.issue(view_of(std::span(a)), ReduceOp::sum);
        issue(second);
        int told = 0;
        for (int poll = 0; poll < 100; ++poll)
            for (SharedAllReduce* const rank : {&first, &second}) try {
                    rank->progress();
                } catch (const PeerError& error) {
                    ++told;
                    const std::string text = error.what();
                    EXPECT_NE(text.find("all_reduce of 100 f32 (sum)"), std::string::npos) << text;
                    EXPECT_NE(text.find(words), std::string::npos) << text;
                }
        EXPECT_EQ(told, 2) << "each rank once: then it has stopped";
        EXPECT_FALSE(first.finished(request));
        EXPECT_EQ(a, std::vector<float>(100, 1));
        EXPECT_EQ(b, std::vector<float>(100, 2));
        EXPECT_EQ(c, std::vector<float>(300, 3));
    }
}

TEST(shared_all_reduce, has_stopped_when_who_uses_the_sums_throws) {
    const Sizes sizes{256, 2, 0};
    const Region region(2, sizes);
    SharedAllReduce first(region.data(), 0, 2, sizes), second(region.data(), 1, 2, sizes);
    std::vector<float> a(400, 1), b(400, 2), a_out(400), b_out(400);
    const auto request = first.issue_reduce_then_gather(
        view_of(std::span(a)), view_of(std::span(a_out)),
        [](std::int64_t, std::int64_t) { throw std::runtime_error("no update"); });
    second.issue_reduce_then_gather(view_of(std::span(b)), view_of(std::span(b_out)),
                                    [](std::int64_t, std::int64_t) {});
    second.progress();
    EXPECT_THROW(first.progress(), std::runtime_error);
    for (int poll = 0; poll < 10; ++poll) {
        EXPECT_NO_THROW(first.progress());
        second.progress();
    }
    EXPECT_FALSE(first.finished(*request));
}

TEST(shared_all_reduce, touches_no_buffer_after_stop) {
    const Sizes sizes{256, 2, 0};
    const Region region(2, sizes);
    SharedAllReduce first(region.data(), 0, 2, sizes), second(region.data(), 1, 2, sizes);
    std::vector<float> a(50, 1), b(50, 2);
    const auto request = first.issue(view_of(std::span(a)), ReduceOp::sum);
    first.progress();
    first.stop("given up");
    second.issue(view_of(std::span(b)), ReduceOp::sum);
    for (int poll = 0; poll < 10; ++poll) {
        second.progress();
        first.progress();
    }
    EXPECT_FALSE(first.finished(request));
    EXPECT_EQ(a, std::vector<float>(50, 1));
}

TEST(shared_all_reduce, knows_whom_it_waits_for) {
    constexpr Sizes sizes{1024, 2, 0};  // nothing is staged whole
    const Region region(3, sizes);
    SharedAllReduce one(region.data(), 0, 3, sizes), two(region.data(), 1, 3, sizes),
        three(region.data(), 2, 3, sizes);
    std::vector<float> first(100), second(100), third(100);
    EXPECT_EQ(one.awaited(), std::vector<int>()) << "nothing to do";
    const auto request = one.issue(view_of(std::span(first)), ReduceOp::sum);
    one.progress();
    EXPECT_EQ(one.awaited(), (std::vector<int>{1, 2}));
    two.issue(view_of(std::span(second)), ReduceOp::sum);
    two.progress();
    EXPECT_EQ(one.awaited(), std::vector<int>{2});
    three.issue(view_of(std::span(third)), ReduceOp::sum);
    three.progress();
    one.progress();
    EXPECT_EQ(one.awaited(), std::vector<int>{1}) << "its share of the sums";
    two.progress();
    one.progress();
    EXPECT_TRUE(one.finished(request));
    EXPECT_EQ(one.awaited(), std::vector<int>());
}

}  // namespace
}  // namespace tutti
