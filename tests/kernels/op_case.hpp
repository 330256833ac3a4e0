#pragma once
// An operator's inputs and outputs in fp32, for tests of kernels that are called by themselves.

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "host_memory.hpp"
#include "reference.hpp"
#include "test_tensor.hpp"

namespace tutti::test {

/// Rounds `times` its numbers.
inline void make_whole(TestTensor& tensor, double times) {
    for (std::size_t i = 0; i < tensor.size(); ++i) tensor.set(i, std::round(tensor.get(i) * times));
}

/// OpShape: Conv2dShape or LinearShape; `batch` images, or rows.
template <class OpShape>
struct OpCase {
    OpShape shape;
    std::int64_t batch;
    TestTensor x, weight, bias, dy, y, dx, dweight, dbias;
    Workspace workspace;

    OpCase(const OpShape& of, std::int64_t count) : OpCase(of, count, Extents(of, count)) {}

    Sums expected_y() const { return reference_forward(shape, batch, x, weight, bias); }
    Gradients expected() const { return reference_backward(shape, batch, x, weight, dy); }

    static float* data(TestTensor& tensor) { return tensor.view().as<float>(); }
    float* if_biased(TestTensor& tensor) const { return shape.bias ? data(tensor) : nullptr; }
    /// More than the cases of tests need.
    void fill_workspace_with_nan() {
        constexpr std::size_t much = std::size_t{1} << 24;
        std::fill_n(workspace.reserve_elements<float>(much), much, std::nanf(""));
    }

  private:
    OpCase(const OpShape& of, std::int64_t count, const Extents& extents)
        : shape(of),
          batch(count),
          x(TestTensor::random(DType::f32, extents.x, 1)),
          weight(TestTensor::random(DType::f32, extents.weight, 2)),
          bias(TestTensor::random(DType::f32, extents.bias, 3)),
          dy(TestTensor::random(DType::f32, extents.y, 4)),
          y(DType::f32, extents.y),
          dx(DType::f32, extents.x),
          dweight(DType::f32, extents.weight),
          dbias(DType::f32, extents.bias) {}
};

/// run() of `one` with one thread and of `other`, the same case, with each of these numbers gives the same
/// bits. OpenMP keeps the last number.
template <class Case>
void expect_the_bits_of_one_thread(Case& one, Case& other, std::initializer_list<int> threads) {
    const auto run = [](Case& of, int count) {
        for (TestTensor* output : {&of.y, &of.dx, &of.dweight, &of.dbias})
            for (std::size_t i = 0; i < output->size(); ++i) output->set(i, -1);
        omp_set_num_threads(count);
        of.run();
    };
    run(one, 1);
    for (const int count : threads) {
        run(other, count);
        EXPECT_EQ(one.y.bytes(), other.y.bytes()) << count << " threads";
        EXPECT_EQ(one.dx.bytes(), other.dx.bytes()) << count << " threads";
        EXPECT_EQ(one.dweight.bytes(), other.dweight.bytes()) << count << " threads";
        EXPECT_EQ(one.dbias.bytes(), other.dbias.bytes()) << count << " threads";
    }
}

}  // namespace tutti::test
