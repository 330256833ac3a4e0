#include "thread_changes.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

std::vector<RankPlace> places_of(const std::vector<int>& threads) {
    std::vector<RankPlace> places;
    for (const int one : threads) {
        places.emplace_back();
        places.back().threads = one;
    }
    return places;
}

TEST(thread_changes, names_the_first_rank_and_counts_the_others) {
    const std::string before = R"({"ranks": [{"rank": 0, "threads": 1}, {"threads": 1}, {"threads": 2}]})";
    EXPECT_EQ(thread_changes(before, places_of({1, 1, 2})), "");
    EXPECT_EQ(thread_changes(before, places_of({1, 4, 2})), "rank 1: 1 -> 4");
    EXPECT_EQ(thread_changes(before, places_of({2, 4, 1})), "rank 0: 1 -> 2, and 2 more");
}

TEST(thread_changes, says_nothing_of_other_ranks_and_of_what_it_cannot_know) {
    const std::string before = R"({"ranks": [{"threads": 1}]})";
    EXPECT_EQ(thread_changes(before, places_of({2, 2})), "");
    for (const char* const text :
         {"", "{", "[]", "{}", R"({"ranks": 1})", R"({"ranks": [1]})", R"({"ranks": [{"threads": "1"}]})"})
        EXPECT_EQ(thread_changes(text, places_of({2})), "") << text;
}

}  // namespace
}  // namespace tutti
