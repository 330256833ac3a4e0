#pragma once
// What convolutions by tiles have to keep: what else is in a batch changes no bit of an image.

#include <gtest/gtest.h>

#include "test_tensor.hpp"

namespace tutti::test {

/// `all` and `one`, cases with x, dy, y, dx and run(), of `batch` images and of one; every `step`-th is
/// computed alone.
template <class Case>
void expect_images_as_alone(Case& all, Case& one, std::size_t batch, std::size_t step = 1) {
    all.run();
    for (std::size_t n = 0; n < batch; n += step) {
        for (std::size_t i = 0; i < one.x.size(); ++i) one.x.set(i, all.x.get(n * one.x.size() + i));
        for (std::size_t i = 0; i < one.dy.size(); ++i) one.dy.set(i, all.dy.get(n * one.dy.size() + i));
        one.run();
        for (std::size_t i = 0; i < one.y.size(); ++i)
            ASSERT_EQ(one.y.get(i), all.y.get(n * one.y.size() + i)) << "image " << n;
        for (std::size_t i = 0; i < one.dx.size(); ++i)
            ASSERT_EQ(one.dx.get(i), all.dx.get(n * one.dx.size() + i)) << "image " << n;
    }
}

}  // namespace tutti::test
