#include "non_finite.hpp"

#include <cmath>

#include "kernel_test.hpp"

namespace tutti::test {
namespace {

class CudaNonFiniteTest : public CudaKernelTest {
  protected:
    std::vector<double> run(TestTensor& x, const std::vector<double>& offsets) {
        TestTensor places(DType::i64, {static_cast<std::int64_t>(offsets.size())}, offsets);
        TestTensor flags(DType::i64, {static_cast<std::int64_t>(offsets.size()) - 1});
        cuda::find_non_finite(x.view(), places.view(), flags.view(), stream_);
        return flags.values();
    }
};
TUTTI_KERNEL_TEST(CudaNonFiniteTest);

TEST_P(CudaNonFiniteTest, names_the_segments) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
        auto x = TestTensor::random(dtype, {1003}, 1);
        // Segment 2 is empty.
        const std::vector<double> offsets{0, 1, 300, 300, 777, 1003};
        EXPECT_EQ(run(x, offsets), (std::vector<double>{0, 0, 0, 0, 0}));
        x.set(299, INFINITY);
        x.set(1002, NAN);
        EXPECT_EQ(run(x, offsets), (std::vector<double>{0, 1, 0, 0, 1}));
        x.set(300, -INFINITY);
        x.set(301, NAN);
        x.set(0, NAN);
        EXPECT_EQ(run(x, offsets), (std::vector<double>{1, 1, 0, 1, 1}));
    }
}

TEST_P(CudaNonFiniteTest, looks_at_every_element) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const std::int64_t count : {1, 7, 8, 33, 259})
            for (std::int64_t i = 0; i < count; i += 1 + count / 40) {
                auto x = TestTensor::random(dtype, {count}, 1);
                x.set(static_cast<std::size_t>(i), NAN);
                EXPECT_EQ(run(x, {0, static_cast<double>(count)}), std::vector<double>{1})
                    << i << " of " << count;
            }
}

TEST_P(CudaNonFiniteTest, a_slice_may_begin_anywhere) {
    auto x = TestTensor::random(DType::f32, {70}, 1);
    x.set(69, NAN);
    TestTensor offsets(DType::i64, {3}, {0, 60, 69}), flags(DType::i64, {2});
    const TensorView slice{x.view().data + 4, DType::f32, {69}};
    cuda::find_non_finite(slice, offsets.view(), flags.view(), stream_);
    EXPECT_EQ(flags.values(), (std::vector<double>{0, 1}));
}

TEST_P(CudaNonFiniteTest, nothing_is_finite) {
    TestTensor x(DType::f32, {0});
    EXPECT_EQ(run(x, {0, 0}), std::vector<double>{0});
    EXPECT_EQ(run(x, {0}), std::vector<double>{});
}

}  // namespace
}  // namespace tutti::test
