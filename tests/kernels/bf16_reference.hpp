#pragma once
// What tests of products in bf16 have in common: rounding as the reference has it, and processors without.

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cstdint>

#include "bf16_tile.hpp"
#include "reference.hpp"
#include "support/bf16_refusal.hpp"
#include "test_tensor.hpp"

namespace tutti::test {

/// To the upper half of a binary32, ties to even.
inline float rounded(double value) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}
inline TestTensor rounded(const TestTensor& tensor) {
    TestTensor result = tensor;
    for (std::size_t i = 0; i < result.size(); ++i) result.set(i, rounded(tensor.get(i)));
    return result;
}
/// The upper half alone.
inline std::uint16_t bf16_bits(double value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded(value)) >> 16);
}

inline void expect_exactly(const TestTensor& tensor, const Sums& expected) {
    ASSERT_EQ(tensor.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(tensor.get(i), expected[i].value) << "element " << i;
}

/// Of our own bf16 kernels; gives OpenMP its threads back.
class Bf16KernelTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_bf16_tiles())
            refused_bf16(Bf16Need::instructions, "this processor (or compiler) has no AVX512_BF16");
    }
    void TearDown() override { omp_set_num_threads(threads_); }

  private:
    int threads_ = omp_get_max_threads();
};

}  // namespace tutti::test
