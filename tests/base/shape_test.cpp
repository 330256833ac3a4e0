#include "tutti/base/shape.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Shape, prints_its_dimensions_outermost_first) {
    EXPECT_EQ(to_string(Shape{64, 28, 28, 1}), "[64, 28, 28, 1]");
}

TEST(Shape, prints_a_scalar_as_empty_brackets) {
    EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Shape, counts_the_product_of_its_dimensions) {
    EXPECT_EQ((Shape{2, 3, 4}).count(), 24);
}

TEST(Shape, counts_one_element_for_a_scalar) {
    EXPECT_EQ(Shape{}.count(), 1);
}

TEST(Shape, gains_a_dimension_in_front) {
    EXPECT_EQ((Shape{3, 4}).with_front(2), (Shape{2, 3, 4}));
}

TEST(Shape, differs_when_only_the_rank_differs) {
    EXPECT_FALSE((Shape{2, 1}) == (Shape{2}));
}

}  // namespace
}  // namespace tutti
