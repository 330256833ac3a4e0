#pragma once
// Attention over samples each of which has another number of tokens.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test_tensor.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti::test {

/// Attention's arguments in both directions.
struct AttentionTensors {
    AttentionShape shape;
    TestTensor qkv, dout, out, dqkv;

    AttentionTensors(DType dtype, const AttentionShape& of, std::int64_t samples)
        : shape(of),
          qkv(dtype, {samples, of.tokens, 3, of.heads, of.width}),
          dout(dtype, {samples, of.tokens, of.heads, of.width}),
          out(dout),
          dqkv(qkv) {}
};

/// Random samples of several lengths under a mask, and each of them alone.
class MaskedAttentionCase {
  public:
    /// padding: what the numbers in rows of padding are multiplied by.
    MaskedAttentionCase(DType dtype, const AttentionShape& shape, double padding)
        : dtype_(dtype), lengths_(lengths_of(shape.tokens)), together_(dtype, shape, samples()) {
        together_.qkv = with_padding(together_.qkv, 1, padding);
        together_.dout = with_padding(together_.dout, 2, padding);
    }

    /// Behind a sample's first 0 stands what counts no more.
    TestTensor mask() const {
        std::vector<double> values;
        for (const std::int64_t length : lengths_)
            for (std::int64_t t = 0; t < together_.shape.tokens; ++t)
                values.push_back(t < length || (t - length) % 3 == 1 ? 1 : 0);
        return {dtype_, {samples(), together_.shape.tokens}, values};
    }
    AttentionTensors& together() { return together_; }

    /// run(AttentionTensors&, mask) computes out and dqkv; mask may be undefined. What exists is, within
    /// `tolerance`, what is computed of it alone; padding is 0.
    template <class Run>
    void expect_each_as_alone(const Run& run, double tolerance) {
        TestTensor of_all = mask();
        run(together_, of_all.view());
        for (std::size_t n = 0; n < lengths_.size(); ++n) {
            SCOPED_TRACE(testing::Message()
                         << lengths_[n] << " of " << together_.shape.tokens << " tokens, "
                         << together_.shape.heads << " heads of " << together_.shape.width);
            AttentionTensors alone(dtype_, {lengths_[n], together_.shape.heads, together_.shape.width}, 1);
            alone.qkv = first_tokens(together_.qkv, n, alone.qkv);
            alone.dout = first_tokens(together_.dout, n, alone.dout);
            if (lengths_[n] > 0) run(alone, TensorView());
            expect_sample(together_.out, n, alone.out, tolerance);
            expect_sample(together_.dqkv, n, alone.dqkv, tolerance);
        }
    }

  private:
    /// Blocks of queries, vectors and pairs of rows that are full and that are not, one token and none.
    static std::vector<std::int64_t> lengths_of(std::int64_t tokens) {
        std::vector<std::int64_t> lengths;
        for (const std::int64_t length : {std::int64_t{1}, tokens, std::int64_t{0}, std::int64_t{7},
                                          tokens - 1, std::int64_t{64}, std::int64_t{65}, std::int64_t{0}})
            if (length <= tokens) lengths.push_back(length);
        return lengths;
    }
    std::int64_t samples() const { return static_cast<std::int64_t>(lengths_.size()); }
    std::size_t size_of_sample(const TestTensor& x) const { return x.size() / lengths_.size(); }
    std::size_t existing_of(const TestTensor& x, std::size_t sample) const {
        return size_of_sample(x) / static_cast<std::size_t>(together_.shape.tokens) *
               static_cast<std::size_t>(lengths_[sample]);
    }
    /// Random numbers in the shape of x.
    TestTensor with_padding(TestTensor& x, unsigned seed, double padding) const {
        std::vector<double> values = TestTensor::random(dtype_, x.view().shape, seed).values();
        for (std::size_t i = 0; i < values.size(); ++i)
            if (i % size_of_sample(x) >= existing_of(x, i / size_of_sample(x))) values[i] *= padding;
        return {dtype_, x.view().shape, values};
    }
    /// A sample's tokens that exist, in the shape of `alone`.
    TestTensor first_tokens(const TestTensor& x, std::size_t sample, TestTensor& alone) const {
        const std::vector<double> values = x.values();
        const double* const first = values.data() + sample * size_of_sample(x);
        return {dtype_, alone.view().shape, std::vector<double>(first, first + existing_of(x, sample))};
    }
    void expect_sample(const TestTensor& x, std::size_t sample, const TestTensor& alone,
                       double tolerance) const {
        const std::vector<double> values = x.values(), expected = alone.values();
        ASSERT_EQ(existing_of(x, sample), expected.size());
        for (std::size_t i = 0; i < size_of_sample(x); ++i) {
            const double value = values[sample * size_of_sample(x) + i];
            if (i >= expected.size())
                ASSERT_EQ(value, 0) << "padding, element " << i;
            else
                ASSERT_NEAR(value, expected[i], tolerance) << "element " << i;
        }
    }

    DType dtype_;
    std::vector<std::int64_t> lengths_;
    AttentionTensors together_;
};

}  // namespace tutti::test
