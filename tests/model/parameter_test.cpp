#include "tutti/model/parameter.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace tutti {
namespace {

std::vector<int> to_arena(const ParameterSpec& spec, const std::vector<int>& file) {
    std::vector<int> arena(file.size());
    reorder_to_arena(spec, sizeof(int), reinterpret_cast<const std::byte*>(file.data()),
                     reinterpret_cast<std::byte*>(arena.data()));
    return arena;
}

TEST(Parameter, IdentityKeepsTheOrder) {
    const ParameterSpec spec{"bias", {3}, {3}, {}, {}};
    EXPECT_EQ(to_arena(spec, {4, 5, 6}), (std::vector<int>{4, 5, 6}));
}

TEST(Parameter, ConvolutionWeightBecomesChannelsLast) {
    // {O = 1, I = 2, KH = 1, KW = 3}: two rows of three become three pixels of two channels.
    const ParameterSpec spec{"weight", {1, 2, 1, 3}, {1, 2, 1, 3}, {0, 2, 3, 1}, {}};
    EXPECT_EQ(to_arena(spec, {1, 2, 3, 10, 20, 30}), (std::vector<int>{1, 10, 2, 20, 3, 30}));
    EXPECT_EQ(spec.arena_shape(), (Shape{1, 1, 3, 2}));
}

TEST(Parameter, ReorderingToTheFileIsTheInverse) {
    const ParameterSpec spec{"weight", {4, 30}, {4, 5, 2, 3}, {0, 2, 3, 1}, {}};
    std::vector<int> file(120), back(120);
    std::iota(file.begin(), file.end(), 0);
    const std::vector<int> arena = to_arena(spec, file);
    EXPECT_NE(arena, file);
    reorder_to_file(spec, sizeof(int), reinterpret_cast<const std::byte*>(arena.data()),
                    reinterpret_cast<std::byte*>(back.data()));
    EXPECT_EQ(back, file);
}

}  // namespace
}  // namespace tutti
