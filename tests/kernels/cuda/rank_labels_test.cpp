#include "rank_labels.hpp"

#include <cmath>

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaRankLabelsTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaRankLabelsTest);

TEST_P(CudaRankLabelsTest, agrees_with_the_cpu_on_rows_shorter_and_longer_than_a_warp_and_a_block) {
    for (const DType dtype : storage_types)
        for (const std::int64_t classes : {1, 2, 33, 300, 1100}) {
            constexpr std::int64_t rows = 11;
            // bf16 makes many of a long row's logits equal.
            auto logits = TestTensor::random(dtype, {rows, classes}, 1);
            if (classes > 1) logits.set(static_cast<std::size_t>(classes + classes / 2), NAN);
            logits.set(static_cast<std::size_t>(3 * classes + classes / 2), INFINITY);
            auto exact = converted(logits, DType::f32);
            TestTensor labels(DType::i64, {rows});
            for (std::size_t r = 0; r < rows; ++r)
                labels.set(r, static_cast<double>((static_cast<std::int64_t>(r) * 37) % classes));
            TestTensor predicted(DType::i64, {rows}), place(DType::i64, {rows});
            TestTensor cpu_predicted(DType::i64, {rows}), cpu_place(DType::i64, {rows});
            cuda::rank_labels(logits.view(), labels.view(), predicted.view(), place.view(), stream_);
            cpu_.rank_labels(exact.view(), labels.view(), cpu_predicted.view(), cpu_place.view());
            expect_equal(predicted, cpu_predicted.values());
            expect_equal(place, cpu_place.values());
        }
}

TEST_P(CudaRankLabelsTest, of_equal_logits_the_lower_class_comes_first) {
    TestTensor logits(DType::f32, {3, 3}, {2, 2, 2, 2, 2, 2, 2, 2, 2}), labels(DType::i64, {3}, {0, 1, 2});
    TestTensor predicted(DType::i64, {3}), place(DType::i64, {3});
    cuda::rank_labels(logits.view(), labels.view(), predicted.view(), place.view(), stream_);
    expect_equal(predicted, {0, 0, 0});
    expect_equal(place, {0, 1, 2});
}

}  // namespace
}  // namespace tutti::test
