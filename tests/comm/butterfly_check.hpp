#pragma once
// What butterfly_sum promises, as a check that any backend's tests run on all ranks.

#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tutti/comm/butterfly.hpp"

namespace tutti::test {

/// Thirds and sevenths, whose sum depends on the order of addition.
template <class T>
T inexact(int rank, std::size_t i) {
    return T{1} / static_cast<T>(3 + 7 * rank) + static_cast<T>(i) / T{7};
}

/// Of the ranks ≡ first (mod distance), the ranks that are farthest apart added first.
template <class T>
T tree_sum(int first, int distance, int ranks, std::size_t i) {
    if (distance == ranks) return inexact<T>(first, i);
    return tree_sum<T>(first, 2 * distance, ranks, i) + tree_sum<T>(first + distance, 2 * distance, ranks, i);
}

template <class T>
void expect_the_trees_bits(Communicator& communicator) {
    // The last one goes in several pieces.
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{300001}}) {
        std::vector<T> values(count), expected(count);
        for (std::size_t i = 0; i < count; ++i) {
            values[i] = inexact<T>(communicator.rank(), i);
            expected[i] = tree_sum<T>(0, 1, communicator.size(), i);
        }
        butterfly_sum(communicator, view_of(std::span(values)));
        EXPECT_EQ(values, expected) << count << " elements";
    }
}

/// Collective.
inline void expect_butterfly(Communicator& communicator) {
    if (!std::has_single_bit(static_cast<unsigned>(communicator.size()))) {
        double value = 1;
        EXPECT_THROW(butterfly_sum(communicator, view_of(std::span(&value, 1))), std::logic_error);
        return;
    }
    expect_the_trees_bits<float>(communicator);
    expect_the_trees_bits<double>(communicator);
    // Beside an all-reduce that is under way on the same communicator.
    std::vector<double> other(1000, 1), own(1000, 2);
    Work work = communicator.all_reduce(view_of(std::span(other)), ReduceOp::sum);
    butterfly_sum(communicator, view_of(std::span(own)));
    work.wait();
    EXPECT_EQ(other, std::vector<double>(1000, communicator.size()));
    EXPECT_EQ(own, std::vector<double>(1000, 2 * communicator.size()));
}

}  // namespace tutti::test
