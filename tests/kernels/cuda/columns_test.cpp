#include "columns.hpp"

#include <cmath>

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaColumnsTest : public CudaKernelTest {
  protected:
    /// Of the CPU, which gets what is stored as f32.
    static std::vector<std::byte> expected(EigenOps<float>& cpu, TestTensor& x, const ColumnRange& columns,
                                           TestTensor& y, DType to) {
        TestTensor exact_x = converted(x, DType::f32), exact_y = converted(y, DType::f32);
        cpu.copy_columns(exact_x.view(), columns, exact_y.view());
        const TestTensor rounded = converted(exact_y, to);
        return {rounded.bytes().begin(), rounded.bytes().end()};
    }
    static std::vector<std::byte> bytes_of(const TestTensor& tensor) {
        return {tensor.bytes().begin(), tensor.bytes().end()};
    }
};
TUTTI_KERNEL_TEST(CudaColumnsTest);

struct ColumnSizes {
    Shape x, y;
    ColumnRange columns;
};

TEST_P(CudaColumnsTest, have_the_bits_of_the_cpu_and_the_others_are_left) {
    // Nothing; one number; odd counts, and places that allow no wide accesses; whole vectors, in rows that go
    // on and in those that do not; dimensions before the rows; more than one block.
    const ColumnSizes sizes[] = {
        {{0, 3}, {0, 5}, {0, 1, 3}},
        {{2, 3}, {2, 5}, {1, 2, 0}},
        {{1, 1}, {1, 1}, {0, 0, 1}},
        {{3, 7}, {3, 9}, {2, 3, 5}},
        {{5, 13}, {5, 13}, {0, 0, 13}},
        {{4, 24}, {4, 40}, {8, 16, 16}},
        {{4, 24}, {4, 40}, {8, 13, 16}},
        {{4, 24}, {4, 40}, {3, 16, 16}},
        {{4, 24}, {4, 41}, {8, 16, 16}},
        {{4, 25}, {4, 40}, {8, 16, 16}},
        {{4, 24}, {4, 40}, {8, 16, 15}},
        {{6, 16}, {6, 16}, {0, 0, 16}},
        {{2, 3, 5, 12}, {2, 3, 5, 8}, {4, 4, 4}},
        {{70, 40}, {70, 80}, {0, 40, 40}},
    };
    for (const DType from : storage_types)
        for (const DType to : storage_types)
            for (const ColumnSizes& s : sizes) {
                SCOPED_TRACE(testing::Message()
                             << name_of(from) << " " << to_string(s.x) << " from " << s.columns.from << ", "
                             << name_of(to) << " " << to_string(s.y) << " from " << s.columns.to << ", "
                             << s.columns.count << " columns");
                auto x = TestTensor::random(from, s.x, 1), y = TestTensor::random(to, s.y, 2);
                const auto wanted = expected(cpu_, x, s.columns, y, to);
                cuda::copy_columns(x.view(), s.columns, y.view(), stream_);
                EXPECT_EQ(bytes_of(y), wanted);
            }
}

TEST_P(CudaColumnsTest, more_items_than_the_grid_has_threads_take_several_rounds) {
    constexpr std::int64_t rows = 2048 * 256 / 64 + 5;
    constexpr ColumnRange columns{1, 0, 64};
    TestTensor x(DType::f32, {rows, 65}), y(DType::f32, {rows, 64});
    auto* const values = x.view().as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) values[i] = static_cast<float>(i % 8191);
    const auto wanted = expected(cpu_, x, columns, y, DType::f32);
    cuda::copy_columns(x.view(), columns, y.view(), stream_);
    EXPECT_TRUE(bytes_of(y) == wanted);
}

TEST_P(CudaColumnsTest, of_memory_that_allows_no_wide_accesses) {
    constexpr ColumnRange columns{8, 0, 16};
    for (const DType from : storage_types)
        for (const DType to : storage_types)
            for (const bool shifts_x : {false, true}) {
                auto x = TestTensor::random(from, {3, 24}, 1), y = TestTensor::random(to, {3, 16}, 2);
                const auto wanted = expected(cpu_, x, columns, y, to);
                TestTensor shifted_x(from, {73}), shifted_y(to, {49});
                for (std::size_t i = 0; i < x.size(); ++i) shifted_x.set(i + 1, x.get(i));
                const TensorView in = shifts_x ? without_first(shifted_x.view()).reshaped({3, 24}) : x.view();
                const TensorView out = without_first(shifted_y.view());
                cuda::copy_columns(in, columns, out.reshaped({3, 16}), stream_);
                EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), out.data));
            }
}

TEST_P(CudaColumnsTest, what_is_no_number_stays_so) {
    for (const DType from : storage_types)
        for (const DType to : storage_types) {
            TestTensor x(from, {1, 3}, {nan, infinity, -infinity}), y(to, {1, 4}, {1, 2, 3, 4});
            cuda::copy_columns(x.view(), {0, 1, 3}, y.view(), stream_);
            EXPECT_EQ(y.get(0), 1);
            EXPECT_TRUE(std::isnan(y.get(1)));
            EXPECT_EQ(y.get(2), infinity);
            EXPECT_EQ(y.get(3), -infinity);
        }
}

}  // namespace
}  // namespace tutti::test
