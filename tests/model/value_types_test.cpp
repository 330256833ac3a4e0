#include "value_types.hpp"

#include <gtest/gtest.h>

#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

constexpr DType f32 = DType::f32, bf16 = DType::bf16;

std::vector<DType> types_of(const GraphSpec& spec) {
    return value_types(spec.nodes(), f32, bf16);
}

TEST(ValueTypes, AreAllTheSameWhereThereIsOneType) {
    GraphSpec spec({8, 8, 1});
    spec.add("flatten", make_flatten({8, 8, 1}), {0});
    spec.add("fc", make_linear({64}, 10, true), {1});
    EXPECT_EQ(value_types(spec.nodes(), f32, f32), (std::vector<DType>{f32, f32, f32}));
}

TEST(ValueTypes, TheOutputIsComputedInFull) {
    GraphSpec spec({8, 8, 1});
    spec.add("flatten", make_flatten({8, 8, 1}), {0});
    spec.add("fc1", make_linear({64}, 32, true), {1});
    spec.add("relu", make_relu({32}), {2});
    spec.add("fc2", make_linear({32}, 10, true), {3});
    EXPECT_EQ(types_of(spec), (std::vector<DType>{bf16, bf16, bf16, bf16, f32}));
}

TEST(ValueTypes, WhatIsOfTheOutputsTypeByItsLayersFollowsIt) {
    // The last product's output reaches the loss through layers that take and give one type, and a sum that
    // ties another branch to it.
    GraphSpec spec({16});
    spec.add("a", make_linear({16}, 10, true), {0});
    spec.add("branch", make_linear({16}, 10, true), {0});
    spec.add("branch_relu", make_relu({10}), {2});
    spec.add("sum", make_add({10}), {1, 3});
    spec.add("relu", make_relu({10}), {4});
    EXPECT_EQ(types_of(spec), (std::vector<DType>{bf16, f32, f32, f32, f32, f32}));
}

}  // namespace
}  // namespace tutti
