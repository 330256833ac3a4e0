#include "backend.hpp"

namespace tutti::test {
namespace {

class SequenceTest : public KernelTest {
  protected:
    /// y before, with columns of x copied into it.
    static std::vector<double> copied(const std::vector<double>& x, std::int64_t x_row,
                                      const ColumnRange& columns, std::vector<double> y, std::int64_t y_row) {
        const auto rows = static_cast<std::int64_t>(y.size()) / y_row;
        for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t i = 0; i < columns.count; ++i)
                y[static_cast<std::size_t>(row * y_row + columns.to + i)] =
                    x[static_cast<std::size_t>(row * x_row + columns.from + i)];
        return y;
    }
};
TUTTI_TEST_ON(SequenceTest, backends);

TEST_P(SequenceTest, copies_neighbouring_columns_and_leaves_the_others) {
    auto x = tensor({2, 3}, {1, 2, 3, 4, 5, 6}), y = tensor({2, 4}, {-1, -2, -3, -4, -5, -6, -7, -8});
    ops_->copy_columns(x.view(), {.from = 1, .to = 0, .count = 2}, y.view());
    expect_equal(y, {2, 3, -3, -4, 5, 6, -7, -8});
    ops_->copy_columns(x.view(), {.from = 0, .to = 3, .count = 1}, y.view());
    expect_equal(y, {2, 3, -3, 1, 5, 6, -7, 4});
}

TEST_P(SequenceTest, copies_from_and_to_any_columns_of_any_rows) {
    const std::int64_t width = 7, wider = 10;
    const std::pair<Shape, Shape> shapes[] = {{{1, width}, {1, wider}},
                                              {{5, width}, {5, wider}},
                                              {{3, 4, width}, {3, 4, wider}},
                                              {{2, 3, 2, width}, {2, 3, 2, wider}},
                                              // As many rows in another shape.
                                              {{6, width}, {2, 3, wider}}};
    for (const auto& [from, to] : shapes)
        for (const ColumnRange& columns :
             {ColumnRange{0, 0, 7}, ColumnRange{0, 3, 7}, ColumnRange{6, 9, 1}, ColumnRange{6, 0, 1},
              ColumnRange{0, 9, 1}, ColumnRange{2, 5, 4}}) {
            SCOPED_TRACE(testing::Message() << to_string(from) << " to " << to_string(to) << ", columns "
                                            << columns.from << " to " << columns.to << ": " << columns.count);
            auto x = random(from, 1), y = random(to, 2);
            const std::vector<double> expected = copied(x.values(), width, columns, y.values(), wider);
            ops_->copy_columns(x.view(), columns, y.view());
            expect_equal(y, expected);
        }
}

TEST_P(SequenceTest, copies_what_threads_share) {
    for (const auto& [rows, count] :
         {std::pair<std::int64_t, std::int64_t>{40'000, 1}, {3'000, 60}, {3, 30'000}}) {
        const ColumnRange columns{.from = 2, .to = 1, .count = count};
        auto x = random({rows, count + 2}, 1), y = random({rows, count + 3}, 2);
        const std::vector<double> expected = copied(x.values(), count + 2, columns, y.values(), count + 3);
        ops_->copy_columns(x.view(), columns, y.view());
        EXPECT_EQ(y.values(), expected) << rows << " rows";
    }
}

TEST_P(SequenceTest, copies_whole_rows_between_tensors_of_one_width) {
    auto x = random({4, 5, 6}, 1), y = tensor({4, 5, 6});
    ops_->copy_columns(x.view(), {.from = 0, .to = 0, .count = 6}, y.view());
    EXPECT_EQ(y.bytes(), x.bytes());
}

TEST_P(SequenceTest, no_columns_and_no_rows_are_copied_too) {
    auto x = random({3, 4}, 1), y = random({3, 2}, 2);
    const std::vector<double> before = y.values();
    for (const ColumnRange& nothing : {ColumnRange{0, 0, 0}, ColumnRange{4, 2, 0}}) {
        ops_->copy_columns(x.view(), nothing, y.view());
        expect_equal(y, before);
    }
    auto empty = tensor({0, 3, 4}), also_empty = tensor({0, 3, 5});
    ops_->copy_columns(empty.view(), {.from = 1, .to = 2, .count = 3}, also_empty.view());
    auto narrow = tensor({3, 0});
    ops_->copy_columns(narrow.view(), {}, y.view());
    expect_equal(y, before);
}

TEST_P(SequenceTest, what_is_no_number_is_copied) {
    auto x = tensor({1, 3}, {nan, infinity, 1}), y = tensor({1, 2}, {0, 0});
    ops_->copy_columns(x.view(), {.from = 0, .to = 0, .count = 2}, y.view());
    expect_equal(y, {nan, infinity});
}

}  // namespace
}  // namespace tutti::test
