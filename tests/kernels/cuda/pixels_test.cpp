#include "pixels.hpp"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace tutti::cuda {
namespace {

using Calls = std::vector<std::tuple<std::int64_t, std::int64_t, unsigned>>;

Calls calls_for(std::int64_t samples, std::int64_t items_per_sample) {
    Calls calls;
    for_samples(samples, items_per_sample, [&](std::int64_t first, std::int64_t count, unsigned items) {
        calls.emplace_back(first, count, items);
    });
    return calls;
}

constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;

TEST(for_samples, takes_as_many_at_a_time_as_32_bits_count) {
    EXPECT_EQ(calls_for(3, 10), (Calls{{0, 3, 30}}));
    EXPECT_EQ(calls_for(3, std::int64_t{1} << 30),
              (Calls{{0, 1, 1u << 30}, {1, 1, 1u << 30}, {2, 1, 1u << 30}}));
    EXPECT_EQ(calls_for(2, most),
              (Calls{{0, 1, static_cast<unsigned>(most)}, {1, 1, static_cast<unsigned>(most)}}));
    EXPECT_EQ(calls_for(5, 0), Calls{});
    EXPECT_EQ(calls_for(0, 10), Calls{});
}

TEST(for_samples, refuses_a_sample_that_32_bits_cannot_count) {
    for (const std::int64_t items : {most + 1, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 7}) try {
            calls_for(1, items);
            ADD_FAILURE() << items;
        } catch (const RunError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find(std::to_string(items) + " elements"), std::string::npos) << text;
            EXPECT_NE(text.find("device: cpu"), std::string::npos) << text;
        }
}

}  // namespace
}  // namespace tutti::cuda
