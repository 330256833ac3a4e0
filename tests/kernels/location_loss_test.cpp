#include <omp.h>

#include <cmath>

#include "backend.hpp"

namespace tutti::test {
namespace {

constexpr LocationLoss usual;

/// The definition, in double. gradient: of `scale` times the loss.
struct ByDefinition {
    double loss = 0;
    std::int64_t right = 0;
    std::vector<double> differences, gradient;

    ByDefinition(const TestTensor& outputs, const std::vector<double>& wanted, const Shape& shape,
                 const LocationLoss& loss_of, double scale) {
        const std::vector<double> o = outputs.values();
        const std::int64_t height = shape[1], width = shape[2], cells = height * width;
        differences.resize(o.size());
        gradient.resize(o.size());
        for (std::int64_t n = 0; n < shape[0]; ++n) {
            const auto first = static_cast<std::size_t>(2 * n * cells), row = static_cast<std::size_t>(3 * n);
            const bool present = wanted[row] > 0.5;
            double squares = 0, logit = 0;
            for (std::int64_t i = 0; i < height; ++i)
                for (std::int64_t j = 0; j < width; ++j) {
                    const auto at = first + static_cast<std::size_t>(2 * (i * width + j));
                    const double x = static_cast<double>(loss_of.stride * j) - wanted[row + 1],
                                 y = static_cast<double>(loss_of.stride * i) - wanted[row + 2];
                    const double heat =
                        present ? std::exp(-(x * x + y * y) / (2 * loss_of.sigma * loss_of.sigma)) : 0.005;
                    differences[at] = o[at] - heat;
                    squares += differences[at] * differences[at];
                    logit += o[at + 1] / static_cast<double>(cells);
                }
            loss += loss_of.heat_map_weight * squares / static_cast<double>(cells) +
                    loss_of.presence_weight * (std::log1p(std::exp(logit)) - (present ? logit : 0));
            right += (logit > 0) == present ? 1 : 0;
            const double said = 1 / (1 + std::exp(-logit)) - (present ? 1 : 0);
            for (std::int64_t cell = 0; cell < cells; ++cell) {
                const auto at = first + static_cast<std::size_t>(2 * cell);
                differences[at + 1] = said;
                gradient[at] =
                    scale * loss_of.heat_map_weight * 2 / static_cast<double>(cells) * differences[at];
                gradient[at + 1] = scale * loss_of.presence_weight / static_cast<double>(cells) * said;
            }
        }
    }
};

class LocationLossTest : public KernelTest {
  protected:
    static TestTensor wanted(const std::vector<double>& rows) {
        return {DType::f32, {static_cast<std::int64_t>(rows.size() / 3), 3}, rows};
    }
    TestTensor sums_{DType::f64, {3}};
};
class LocationLossReferenceTest : public LocationLossTest {};
TUTTI_TEST_ON(LocationLossTest, backends);
TUTTI_TEST_ON(LocationLossReferenceTest, reference_backends);

TEST_P(LocationLossTest, computes_a_hand_sized_case) {
    // Two cells in a row; of the first sample the thing is at the second cell, the second sample has none.
    auto outputs = tensor({2, 1, 2, 2}, {0, 3, 0.5, 5, 0.005, -2, 1.005, 2}), d = tensor({2, 1, 2, 2}),
         gradient = tensor({2, 1, 2, 2});
    auto rows = wanted({1, 4, 0, 0, 0, 0});
    const LocationLoss loss{.stride = 4, .sigma = 4, .heat_map_weight = 10, .presence_weight = 2};
    ops_->location_loss_forward(outputs.view(), rows.view(), loss, d.view(), sums_.view());
    // Its bell is 1 there and exp(−1/2) a cell beside; the logits are 4 and 0.
    const double beside = std::exp(-0.5), there = 1 / (1 + std::exp(-4.0)) - 1;
    expect_near(d.values(), {-beside, there, -0.5, there, 0, 0.5, 1, 0.5}, 4 * unit_roundoff_);
    const double first = 10 * (beside * beside + 0.25) / 2 + 2 * std::log1p(std::exp(-4.0)),
                 second = 10 * 0.5 + 2 * std::log(2.0);
    expect_near(sums_.values(), {first + second, 2, 2}, 8 * unit_roundoff_);
    ops_->location_loss_backward(d.view(), loss, 0.5, gradient.view());
    expect_near(gradient.values(), {-5 * beside, there / 2, -2.5, there / 2, 0, 0.25, 5, 0.25},
                8 * unit_roundoff_);
}

TEST_P(LocationLossTest, agrees_with_the_definition) {
    for (const Shape& shape : {Shape{1, 1, 1, 2}, Shape{3, 5, 7, 2}, Shape{40, 12, 12, 2},
                               Shape{2, 96, 96, 2}, Shape{5, 3, 130, 2}}) {
        SCOPED_TRACE(to_string(shape));
        auto outputs = random(shape, 1), d = tensor(shape), gradient = tensor(shape);
        const TestTensor places = TestTensor::random(DType::f32, {shape[0], 2}, 2);
        std::vector<double> rows;
        for (std::int64_t n = 0; n < shape[0]; ++n) {
            rows.push_back(n % 3 == 1 ? 0 : 1);
            // Between pixels, and now and then beyond the edge.
            const auto at = static_cast<std::size_t>(2 * n);
            for (const std::int64_t side : {shape[2], shape[1]})
                rows.push_back(static_cast<float>((places.get(at + rows.size() % 2) + 0.8) * 2 *
                                                  static_cast<double>(side)));
        }
        auto target = wanted(rows);
        const ByDefinition expected(outputs, rows, shape, usual, 3);
        ops_->location_loss_forward(outputs.view(), target.view(), usual, d.view(), sums_.view());
        // What is in the exponent of a bell has been rounded three times.
        expect_near(d.values(), expected.differences, 16 * unit_roundoff_);
        EXPECT_NEAR(sums_.get(0), expected.loss, 64 * unit_roundoff_ * expected.loss + 1e-12 * expected.loss);
        EXPECT_EQ(sums_.get(1), shape[0]);
        EXPECT_EQ(sums_.get(2), expected.right);
        ops_->location_loss_backward(d.view(), usual, 3, gradient.view());
        expect_near(gradient.values(), expected.gradient, 64 * unit_roundoff_);
    }
}

TEST_P(LocationLossReferenceTest, backward_is_the_gradient_of_forward) {
    const Shape shape{2, 3, 4, 2};
    auto outputs = random(shape, 1), d = tensor(shape), gradient = tensor(shape);
    auto rows = wanted({1, 6.5, 3.25, 0, 0, 0});
    const auto loss = [&] {
        ops_->location_loss_forward(outputs.view(), rows.view(), usual, d.view(), sums_.view());
        return 0.7 * sums_.get(0);
    };
    const std::vector<double> numeric = numeric_gradient(outputs, 1e-5, loss);
    loss();
    ops_->location_loss_backward(d.view(), usual, 0.7, gradient.view());
    expect_near(gradient.values(), numeric, 1e-8);
}

TEST_P(LocationLossTest, large_logits_overflow_nothing) {
    auto outputs = tensor({2, 1, 1, 2}, {0, 2000, 0, -2000}), d = tensor({2, 1, 1, 2});
    auto rows = wanted({0, 0, 0, 1, 0, 0});
    const LocationLoss loss{.heat_map_weight = 0};
    ops_->location_loss_forward(outputs.view(), rows.view(), loss, d.view(), sums_.view());
    expect_equal(sums_, {4000, 2, 0});
    EXPECT_EQ(d.get(1), 1);
    EXPECT_EQ(d.get(3), -1);
}

TEST_P(LocationLossTest, what_is_no_number_shows) {
    auto outputs = tensor({1, 1, 2, 2}, {0, nan, 0, 0}), d = tensor({1, 1, 2, 2});
    auto rows = wanted({1, 0, 0});
    ops_->location_loss_forward(outputs.view(), rows.view(), usual, d.view(), sums_.view());
    EXPECT_TRUE(std::isnan(sums_.get(0)));
    EXPECT_TRUE(std::isnan(d.get(1)));
    outputs = tensor({1, 1, 2, 2}, {nan, 0, 0, 0});
    ops_->location_loss_forward(outputs.view(), rows.view(), usual, d.view(), sums_.view());
    EXPECT_TRUE(std::isnan(sums_.get(0)));
    EXPECT_TRUE(std::isnan(d.get(0)));
}

TEST_P(LocationLossTest, works_in_place) {
    const Shape shape{5, 6, 7, 2};
    auto outputs = random(shape, 1), d = tensor(shape), gradient = tensor(shape);
    auto rows = wanted({1, 3, 4, 0, 0, 0, 1, 20, 9.5, 1, -3, 2, 0, 1, 1});
    ops_->location_loss_forward(outputs.view(), rows.view(), usual, d.view(), sums_.view());
    ops_->location_loss_backward(d.view(), usual, 2, gradient.view());
    const auto separate = sums_.values();
    ops_->location_loss_forward(outputs.view(), rows.view(), usual, outputs.view(), sums_.view());
    EXPECT_EQ(outputs.bytes(), d.bytes());
    EXPECT_EQ(sums_.values(), separate);
    ops_->location_loss_backward(outputs.view(), usual, 2, outputs.view());
    EXPECT_EQ(outputs.bytes(), gradient.bytes());
}

TEST_P(LocationLossTest, no_bit_depends_on_the_number_of_threads) {
    const Shape shape{37, 24, 24, 2};
    auto outputs = random(shape, 1), first = tensor(shape), d = tensor(shape);
    std::vector<double> rows;
    for (int n = 0; n < 37; ++n) rows.insert(rows.end(), {n % 2 == 0 ? 1.0 : 0.0, 2.5 * n, 96 - 2.0 * n});
    auto target = wanted(rows);
    TestTensor first_sums(DType::f64, {3});
    omp_set_num_threads(1);
    ops_->location_loss_forward(outputs.view(), target.view(), usual, first.view(), first_sums.view());
    omp_set_num_threads(2);
    ops_->location_loss_forward(outputs.view(), target.view(), usual, d.view(), sums_.view());
    EXPECT_EQ(d.bytes(), first.bytes());
    EXPECT_EQ(sums_.bytes(), first_sums.bytes());
}

TEST_P(LocationLossTest, of_no_samples) {
    auto outputs = tensor({0, 4, 4, 2}), d = tensor({0, 4, 4, 2});
    auto rows = wanted({});
    ops_->location_loss_forward(outputs.view(), rows.view(), usual, d.view(), sums_.view());
    expect_equal(sums_, {0, 0, 0});
    ops_->location_loss_backward(d.view(), usual, 1, d.view());
}

}  // namespace
}  // namespace tutti::test
