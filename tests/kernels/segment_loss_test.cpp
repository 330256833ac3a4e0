#include <omp.h>

#include <cmath>

#include "backend.hpp"

namespace tutti::test {
namespace {

/// A number and its derivative, so that the formulas can be written as they are read.
struct Dual {
    double value, slope = 0;
    Dual(double v, double s = 0) : value(v), slope(s) {}
};
Dual operator+(Dual a, Dual b) {
    return {a.value + b.value, a.slope + b.slope};
}
Dual operator-(Dual a, Dual b) {
    return {a.value - b.value, a.slope - b.slope};
}
Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
Dual operator/(Dual a, Dual b) {
    return {a.value / b.value, (a.slope * b.value - a.value * b.slope) / (b.value * b.value)};
}
Dual log(Dual a) {
    return {std::log(a.value), a.slope / a.value};
}
/// Each has half where both are equal.
Dual min(Dual a, Dual b) {
    if (a.value == b.value) return {a.value, (a.slope + b.slope) / 2};
    return a.value < b.value ? a : b;
}
Dual max(Dual a, Dual b) {
    return Dual(0) - min(Dual(0) - a, Dual(0) - b);
}
Dual at_least(double bound, Dual a) {
    return a.value < bound ? Dual(bound) : a;
}
Dual sigmoid(Dual z) {
    return Dual(1) / (Dual(1) + Dual(std::exp(-z.value), -z.slope * std::exp(-z.value)));
}

Dual focal_term(Dual z, bool inside, const SegmentLoss& of) {
    const Dual q = sigmoid(inside ? z : Dual(0) - z), rest = sigmoid(inside ? Dual(0) - z : z);
    const Dual power(std::pow(rest.value, of.gamma),
                     of.gamma * std::pow(rest.value, of.gamma - 1) * rest.slope);
    return Dual(inside ? -of.alpha : of.alpha - 1) * power * log(q);
}
Dual offset_term(Dual l, Dual r, double a, double b) {
    const Dual i = min(l, a) + min(r, b), iou = i / at_least(1e-6, l + r + a + b - i);
    const Dual d = ((r - l) - (Dual(b) - a)) / 2, h = at_least(1e-6, max(l, a) + max(r, b));
    return Dual(1) - iou + d * d / (h * h);
}

/// The header's text, sample by sample, in double. gradient: of each sample's loss.
struct SegmentLossByDefinition {
    std::vector<double> losses, gradient;
    double loss = 0, right = 0;

    SegmentLossByDefinition(const TestTensor& outputs, const TestTensor& wanted, const Shape& shape,
                            const SegmentLoss& of) {
        const std::vector<double> o = outputs.values(), w = wanted.values();
        const auto seconds = static_cast<std::size_t>(shape[1]);
        gradient.resize(o.size());
        for (std::size_t n = 0; n < static_cast<std::size_t>(shape[0]); ++n) {
            const auto exists = [&](std::size_t t) { return o[4 * t + 3] != 0; };
            const std::size_t begin = n * seconds, end = begin + seconds;
            double existing = 0, inside = 0, correct = 0, sample = 0;
            for (std::size_t t = begin; t < end; ++t) {
                if (exists(t)) ++existing;
                if (exists(t) && w[2 * t] >= 0) ++inside;
            }
            for (std::size_t t = begin; t < end; ++t) {
                if (!exists(t)) continue;
                const double z = o[4 * t], l = o[4 * t + 1], r = o[4 * t + 2], a = w[2 * t], b = w[2 * t + 1];
                const Dual focal = focal_term({z, 1}, a >= 0, of);
                sample += of.class_weight / existing * focal.value;
                gradient[4 * t] = of.class_weight / existing * focal.slope;
                if ((z > 0) == (a >= 0)) ++correct;
                if (a < 0) continue;
                const Dual left = offset_term({l, 1}, r, a, b), right_term = offset_term(l, {r, 1}, a, b);
                sample += of.offset_weight / inside * left.value;
                gradient[4 * t + 1] = of.offset_weight / inside * left.slope;
                gradient[4 * t + 2] = of.offset_weight / inside * right_term.slope;
            }
            losses.push_back(sample);
            loss += sample;
            if (existing > 0) right += correct / existing;
        }
    }
};

class SegmentLossTest : public KernelTest {
  protected:
    TestTensor wanted(const Shape& shape, const std::vector<double>& values) const {
        return {DType::f32, {shape[0], 2 * shape[1]}, values};
    }
    /// What a model might say, where so many seconds of a sample exist: offsets are 0 now and then, of
    /// padding it says anything.
    TestTensor some_outputs(const Shape& shape, const std::vector<std::int64_t>& lengths) const {
        const std::vector<double> u = TestTensor::random(DType::f32, shape, 1).values();
        std::vector<double> values;
        for (std::size_t i = 0; i < u.size(); i += 4) {
            const auto t = static_cast<std::int64_t>(i / 4);
            const bool exists = t % shape[1] < lengths[static_cast<std::size_t>(t / shape[1])];
            values.push_back(5 * u[i]);
            for (const std::size_t side : {i + 1, i + 2})
                values.push_back(u[side] < -0.8 ? 0 : 8 + 8 * u[side]);
            values.push_back(!exists ? 0 : u[i + 3] < 0 ? 1 : 1 - u[i + 3]);
        }
        return tensor(shape, values);
    }
    /// Every third sample has no inside seconds.
    TestTensor some_wanted(const Shape& shape) const {
        const std::vector<double> u = TestTensor::random(DType::f32, {shape[0], shape[1], 2}, 2).values();
        std::vector<double> values;
        for (std::size_t i = 0; i < u.size(); i += 2) {
            const bool inside = static_cast<std::int64_t>(i / 2) / shape[1] % 3 != 2 && u[i] > -0.3;
            values.push_back(inside ? 1 + u[i] : -1);
            values.push_back(inside ? 5 + 4 * u[i + 1] : 3);
        }
        return wanted(shape, values);
    }
    /// gradients and sums_ of one call.
    TestTensor gradients_of(TestTensor& outputs, TestTensor& target, const Shape& shape,
                            const SegmentLoss& loss) {
        TestTensor result = tensor(shape);
        ops_->segment_loss_forward(outputs.view(), target.view(), loss, result.view(), sums_.view());
        return result;
    }
    /// Of one inside second whose class costs nothing: by l and by r.
    std::vector<double> offset_gradients(double l, double r, double a, double b) {
        auto outputs = tensor({1, 1, 4}, {0, l, r, 1}), target = wanted({1, 1}, {a, b});
        const std::vector<double> all =
            gradients_of(outputs, target, {1, 1, 4}, {.class_weight = 0, .offset_weight = 1}).values();
        return {all[1], all[2]};
    }
    /// What arithmetic in double leaves before gradients are rounded.
    double tolerance() const { return 2 * unit_roundoff_ + 1e-13; }

    TestTensor sums_{DType::f64, {3}};
};
class SegmentLossReferenceTest : public SegmentLossTest {};
TUTTI_TEST_ON(SegmentLossTest, backends);
TUTTI_TEST_ON(SegmentLossReferenceTest, reference_backends);

TEST_P(SegmentLossTest, computes_a_hand_sized_case) {
    // Of the first sample one second is inside, one outside, one padding; nothing of the second is inside.
    const Shape shape{2, 3, 4};
    const double ln3 = std::log(3.0);
    auto outputs = tensor(shape, {ln3, 1, 3, 1, -ln3, 9, 9, 1, 7, 1, 1, 0,  //
                                  0,   2, 2, 1, 0,    2, 2, 1, 0, 2, 2, 1});
    auto target = wanted(shape, {2, 3, -1, 0, 4, 4, -1, 0, -1, 0, -1, 0});
    const SegmentLoss loss{.alpha = 0.75, .gamma = 2, .class_weight = 32, .offset_weight = 10};
    const auto gradients = gradients_of(outputs, target, shape, loss);
    // q is 3/4 in both seconds of the first sample, 1/2 in the second: (1 − q)² = 1/16 or 1/4. Of the inside
    // second i = 1 + 3, the union 5, d = ((3 − 1) − (3 − 2))/2 and h = 2 + 3.
    const double first = 16 * (0.75 + 0.25) / 16 * std::log(4 / 3.0) + 10 * (0.2 + 0.01),
                 second = 32 * 0.25 / 4 * std::log(2.0);
    expect_near(sums_.values(), {first + second, 2, 1 + 1}, tolerance());
    // By z: −α'/16·(2·3/4·ln(4/3) + 1/4) inside, the same with the other sign and α' outside. By l both grow:
    // i' = 1, the union's is 0, d' = −1/2, h' = 0. By r, where both are 3, i', the union's and h' are 1/2.
    const double slope = 1.5 * std::log(4 / 3.0) + 0.25,
                 of_none = 32 / 3.0 * 0.25 / 4 * (std::log(2.0) + 0.5);
    const double by_l = 10 * (-0.2 - 2 * 0.1 * 0.5 / 5),
                 by_r = 10 * (-(0.5 - 0.8 * 0.5) / 5 + 2 * 0.1 * (0.5 - 0.1 * 0.5) / 5);
    expect_near(gradients.values(),
                {-0.75 * slope, by_l, by_r, 0, 0.25 * slope, 0, 0, 0, 0,       0, 0, 0,  //
                 of_none,       0,    0,    0, of_none,      0, 0, 0, of_none, 0, 0, 0},
                tolerance());
}

TEST_P(SegmentLossTest, agrees_with_the_definition) {
    for (const Shape& shape : {Shape{1, 1, 4}, Shape{5, 7, 4}, Shape{3, 130, 4}, Shape{30, 64, 4},
                               Shape{2, 3000, 4}, Shape{700, 2, 4}}) {
        SCOPED_TRACE(to_string(shape));
        // All seconds, none, some.
        std::vector<std::int64_t> lengths;
        for (std::int64_t n = 0; n < shape[0]; ++n)
            lengths.push_back(n % 5 == 1 ? 0 : n % 2 == 0 ? shape[1] : (shape[1] + 1) / 2);
        auto outputs = some_outputs(shape, lengths), target = some_wanted(shape);
        for (const double gamma : {0.0, 0.5, 2.0}) {
            // So large that gradients are of the size of 1.
            const auto seconds = static_cast<double>(shape[1]);
            const SegmentLoss loss{.gamma = gamma, .class_weight = seconds, .offset_weight = 4 * seconds};
            const auto gradients = gradients_of(outputs, target, shape, loss);
            const SegmentLossByDefinition expected(outputs, target, shape, loss);
            expect_near(gradients.values(), expected.gradient, tolerance());
            expect_near(sums_.values(), {expected.loss, static_cast<double>(shape[0]), expected.right},
                        1e-12);
        }
    }
}

TEST_P(SegmentLossReferenceTest, gradients_agree_with_finite_differences) {
    const Shape shape{4, 5, 4};
    auto outputs = some_outputs(shape, {5, 3, 5, 0}), target = some_wanted(shape);
    for (const double gamma : {0.0, 1.5, 2.0}) {
        const SegmentLoss loss{.gamma = gamma};
        const auto gradients = gradients_of(outputs, target, shape, loss).values();
        TestTensor ignored = tensor(shape);
        const auto of_loss = [&] {
            ops_->segment_loss_forward(outputs.view(), target.view(), loss, ignored.view(), sums_.view());
            return sums_.get(0);
        };
        std::vector<double> numeric = numeric_gradient(outputs, 1e-5, of_loss);
        // Whether a second exists has no slope.
        for (std::size_t i = 3; i < numeric.size(); i += 4) numeric[i] = 0;
        expect_near(gradients, numeric, 1e-9);
    }
}

// torch 2.15, fp64: of binary_cross_entropy_with_logits, sigmoid, minimum, maximum and clamp; with ties.
TEST_P(SegmentLossTest, gives_pytorchs_losses_and_gradients) {
    const Shape shape{2, 4, 4};
    auto outputs = tensor(shape, {1.5, 2, 1, 1, -0.75, 0,   4,   1, 2, 3, 3, 1, 0.5, 9, 9, 0,  //
                                  -3,  1, 1, 1, 0.25,  2.5, 0.5, 1, 0, 0, 0, 1, -1,  1, 2, 1});
    auto target = wanted(shape, {2, 3, 0, 6, -1, 0, 1, 1, 1, 2, 2.5, 0.5, -1, 0, 4, 0});
    const auto gradients = gradients_of(outputs, target, shape, {});
    EXPECT_NEAR(sums_.get(0), 0.870895119160551, 1e-14);
    expect_near(gradients.values(),
                {-0.0007947849104176766,
                 -0.0031999999999999945,
                 -0.096,
                 0,
                 -0.030323268511377507,
                 -0.0018518518518518476,
                 -0.07777777777777778,
                 0,
                 0.021534274608969645,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 -0.0394362458222211,
                 -0.00246913580246913,
                 -0.1037037037037037,
                 0,
                 -0.007281973269370252,
                 0,
                 0,
                 0,
                 0.004474301927099796,
                 0,
                 0,
                 0,
                 -0.02688821531197612,
                 -0.06296296296296297,
                 0.010493827160493827,
                 0},
                2 * unit_roundoff_);
}

TEST_P(SegmentLossTest, padding_plays_no_part) {
    const Shape shape{2, 3, 4};
    auto outputs = tensor(shape, {1, 2, 3, 1, nan, nan, nan, 0, -1, 4, 1, 1,  //
                                  1, 2, 3, 1, 9,   9,   9,   0, -1, 4, 1, 1});
    auto target = wanted(shape, {3, 1, nan, nan, -1, nan, 3, 1, -1, 0, -1, 0});
    const auto values = gradients_of(outputs, target, shape, {}).values();
    const double both = sums_.get(0);
    EXPECT_TRUE(std::isfinite(both));
    EXPECT_EQ(std::vector<double>(values.begin(), values.begin() + 12),
              std::vector<double>(values.begin() + 12, values.end()));
    EXPECT_EQ(std::vector<double>(values.begin() + 4, values.begin() + 8), std::vector<double>(4));
    // As of two seconds.
    auto short_outputs = tensor({1, 2, 4}, {1, 2, 3, 1, -1, 4, 1, 1}),
         short_target = wanted({1, 2}, {3, 1, -1, 0});
    const auto short_values = gradients_of(short_outputs, short_target, {1, 2, 4}, {}).values();
    EXPECT_EQ(2 * sums_.get(0), both);
    EXPECT_EQ(std::vector<double>(values.begin(), values.begin() + 4),
              std::vector<double>(short_values.begin(), short_values.begin() + 4));
}

TEST_P(SegmentLossTest, samples_without_existing_or_inside_seconds_cost_what_there_is) {
    const Shape shape{2, 2, 4};
    auto outputs = tensor(shape, {3, 1, 1, 0, 3, 1, 1, 0, 0, 5, 5, 1, 0, 5, 5, 1});
    auto target = wanted(shape, {1, 1, 1, 1, -1, 0, -1, 0});
    const SegmentLoss loss{.alpha = 0.5, .gamma = 0, .class_weight = 1, .offset_weight = 1};
    const auto gradients = gradients_of(outputs, target, shape, loss);
    expect_near(sums_.values(), {std::log(2.0) / 2, 2, 1}, tolerance());
    expect_near(gradients.values(), {0, 0, 0, 0, 0, 0, 0, 0, 0.125, 0, 0, 0, 0.125, 0, 0, 0}, tolerance());
}

TEST_P(SegmentLossTest, of_gamma_0_and_alpha_a_half_is_half_of_binary_cross_entropy) {
    const Shape shape{1, 40, 4};
    const SegmentLoss loss{.alpha = 0.5, .gamma = 0, .class_weight = 80, .offset_weight = 0};
    std::vector<double> values, targets, slopes;
    double expected = 0;
    for (int t = 0; t < 40; ++t) {
        const double z = (t - 20) * 0.75, c = t % 3 == 0 ? 1 : 0;
        values.insert(values.end(), {z, 1, 1, 1});
        targets.insert(targets.end(), {c - 0.5, 1});
        expected += std::log1p(std::exp(z)) - c * z;
        slopes.insert(slopes.end(), {1 / (1 + std::exp(-z)) - c, 0, 0, 0});
    }
    auto outputs = tensor(shape, values), target = wanted(shape, targets);
    const auto gradients = gradients_of(outputs, target, shape, loss);
    EXPECT_NEAR(sums_.get(0), expected, 1e-12 * expected);
    expect_near(gradients.values(), slopes, tolerance());
}

TEST_P(SegmentLossTest, large_logits_overflow_nothing_and_lose_nothing) {
    for (const double size : {100.0, 2000.0}) {
        const Shape shape{4, 1, 4};
        auto outputs = tensor(shape, {size, 1, 1, 1, -size, 1, 1, 1, size, 1, 1, 1, -size, 1, 1, 1});
        auto target = wanted(shape, {1, 1, 1, 1, -1, 1, -1, 1});
        // Wrong ones cost size times their factor, right ones nothing that a sum would show.
        for (const double gamma : {0.0, 2.0}) {
            const SegmentLoss loss{.alpha = 0.75, .gamma = gamma, .class_weight = 1, .offset_weight = 0};
            const auto gradients = gradients_of(outputs, target, shape, loss);
            expect_near(sums_.values(), {size, 4, 2}, 1e-13);
            expect_near(gradients.values(), {0, 0, 0, 0, -0.75, 0, 0, 0, 0.25, 0, 0, 0, 0, 0, 0, 0},
                        tolerance());
        }
    }
    // What is left of a right one is not lost where q is rounded to 1.
    auto outputs = tensor({1, 1, 4}, {50, 1, 1, 1}), target = wanted({1, 1}, {1, 1});
    const SegmentLoss loss{.alpha = 1, .gamma = 0.5, .class_weight = 1, .offset_weight = 0};
    const auto gradients = gradients_of(outputs, target, {1, 1, 4}, loss);
    const double rest = std::exp(-50.0);
    EXPECT_NEAR(sums_.get(0) / std::pow(rest, 1.5), 1, 1e-12);
    EXPECT_NEAR(gradients.get(0) / std::pow(rest, 1.5), -1.5, 1e-6);
}

TEST_P(SegmentLossTest, of_equal_offsets_each_has_half_of_the_gradient) {
    // d = −1, h = 5, i = 3 of 5.
    expect_near(offset_gradients(2, 1, 2, 3), {-(0.5 - 0.6 * 0.5) / 5 - 0.4 * (-0.5 + 0.2 * 0.5) / 5, -0.24},
                tolerance());
    // The second that begins a segment, with an offset that ReLU made 0: i = 4 of 6, d = −1, h = 6.
    expect_near(offset_gradients(0, 4, 0, 6),
                {-(0.5 - 4 / 6.0 * 0.5) / 6 - (-0.5 + 0.5 / 6) / 18, -1 / 6.0 - 0.5 / 18}, tolerance());
}

TEST_P(SegmentLossTest, divisors_have_a_floor) {
    // Nothing said and nothing wanted: i = d = 0 over the floor; i' = 1/2.
    expect_near(offset_gradients(0, 0, 0, 0), {-5e5, -5e5}, tolerance());
    EXPECT_EQ(sums_.get(0), 1);
    // Below the floor divisors are constant: d = −2⁻²³, l' of i 0, r' 1/2.
    const double d = 0x1p-23 / 1e-6;
    expect_near(offset_gradients(0x1p-22, 0, 0, 0), {d / 1e-6, -5e5 - d / 1e-6}, tolerance());
    EXPECT_NEAR(sums_.get(0), 1 + d * d, 1e-13);
    // i = 2⁻²³ of 2⁻²², which grows with l, d = −2⁻²⁴.
    const double c = 0x1p-24 / 1e-6;
    expect_near(offset_gradients(0x1p-22, 0, 0x1p-23, 0), {c / 1e-6, -5e5 - c / 1e-6}, tolerance());
    EXPECT_NEAR(sums_.get(0), 1 - 2 * c + c * c, 1e-13);
    // Above it they are not: i = 0, d = −l/2, h = l.
    expect_near(offset_gradients(0x1p-10, 0, 0, 0), {0, -0x1p9 - 0.75 * 0x1p10}, tolerance());
    EXPECT_NEAR(sums_.get(0), 1.25, 1e-13);
}

TEST_P(SegmentLossTest, what_is_no_number_shows) {
    const Shape shape{1, 2, 4};
    const std::vector<double> good{1, 2, 3, 1, -1, 1, 1, 1}, good_target{2, 2, -1, 1};
    for (const double gamma : {0.0, 2.0})
        for (const std::size_t place : {0u, 1u, 2u, 4u}) {
            SCOPED_TRACE(testing::Message() << "output " << place << ", gamma " << gamma);
            std::vector<double> values = good;
            values[place] = nan;
            auto outputs = tensor(shape, values), target = wanted(shape, good_target);
            const auto gradients = gradients_of(outputs, target, shape, {.gamma = gamma});
            EXPECT_TRUE(std::isnan(sums_.get(0)));
            EXPECT_TRUE(std::isnan(gradients.get(place)));
            EXPECT_TRUE(std::isfinite(gradients.get(place == 0 ? 4 : 0))) << "what does not depend on it";
        }
    // Where alpha leaves nothing of a term, too.
    auto outputs = tensor(shape, {1, 2, 3, 1, nan, 1, 1, 1}), target = wanted(shape, good_target);
    gradients_of(outputs, target, shape, {.alpha = 1});
    EXPECT_TRUE(std::isnan(sums_.get(0)));
    for (const std::size_t place : {0u, 1u}) {
        std::vector<double> values = good_target;
        values[place] = nan;
        outputs = tensor(shape, good), target = wanted(shape, values);
        gradients_of(outputs, target, shape, {});
        EXPECT_TRUE(std::isnan(sums_.get(0))) << "wanted " << place;
    }
}

TEST_P(SegmentLossTest, works_in_place) {
    const Shape shape{6, 33, 4};
    auto outputs = some_outputs(shape, {33, 20, 33, 0, 1, 32}), target = some_wanted(shape),
         scaled = tensor(shape);
    auto gradients = gradients_of(outputs, target, shape, {});
    ops_->segment_loss_backward(gradients.view(), 0.3, scaled.view());
    const auto separate = sums_.values();
    ops_->segment_loss_forward(outputs.view(), target.view(), {}, outputs.view(), sums_.view());
    EXPECT_EQ(outputs.bytes(), gradients.bytes());
    EXPECT_EQ(sums_.values(), separate);
    ops_->segment_loss_backward(outputs.view(), 0.3, outputs.view());
    EXPECT_EQ(outputs.bytes(), scaled.bytes());
}

TEST_P(SegmentLossTest, backward_scales) {
    // Of a size that threads share.
    const Shape shape{5, 2500, 4};
    auto gradients = random(shape, 1), doutputs = tensor(shape);
    ops_->segment_loss_backward(gradients.view(), 0.375, doutputs.view());
    std::vector<double> expected = gradients.values();
    for (double& value : expected) value *= 0.375;
    expect_near(doutputs.values(), expected, unit_roundoff_);
}

TEST_P(SegmentLossTest, adds_samples_in_order) {
    const Shape shape{37, 50, 4};
    const auto samples = static_cast<std::size_t>(shape[0]);
    std::vector<std::int64_t> lengths;
    for (std::int64_t n = 0; n < shape[0]; ++n) lengths.push_back(n * 17 % 51);
    auto outputs = some_outputs(shape, lengths), target = some_wanted(shape);
    const std::vector<double> o = outputs.values(), w = target.values();
    gradients_of(outputs, target, shape, {});
    const auto together = sums_.values();
    double loss = 0, right = 0;
    for (std::size_t n = 0; n < samples; ++n) {
        const auto piece = [&](const std::vector<double>& of) {
            const auto size = of.size() / samples;
            return std::vector<double>(of.data() + n * size, of.data() + (n + 1) * size);
        };
        auto one = tensor({1, 50, 4}, piece(o)), its = wanted({1, 50}, piece(w));
        gradients_of(one, its, {1, 50, 4}, {});
        loss += sums_.get(0);
        right += sums_.get(2);
    }
    EXPECT_EQ(together, (std::vector<double>{loss, 37, right}));
}

TEST_P(SegmentLossTest, no_bit_depends_on_the_number_of_threads) {
    const Shape shape{41, 60, 4};
    auto outputs = some_outputs(shape, std::vector<std::int64_t>(41, 50)), target = some_wanted(shape);
    omp_set_num_threads(1);
    const auto first = gradients_of(outputs, target, shape, {});
    const auto first_sums = sums_.values();
    omp_set_num_threads(2);
    EXPECT_EQ(gradients_of(outputs, target, shape, {}).bytes(), first.bytes());
    EXPECT_EQ(sums_.values(), first_sums);
}

TEST_P(SegmentLossTest, of_no_samples) {
    auto outputs = tensor({0, 9, 4}), target = wanted({0, 9}, {});
    gradients_of(outputs, target, {0, 9, 4}, {});
    expect_equal(sums_, {0, 0, 0});
    ops_->segment_loss_backward(outputs.view(), 1, outputs.view());
}

}  // namespace
}  // namespace tutti::test
