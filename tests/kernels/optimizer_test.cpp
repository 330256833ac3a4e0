#include <cmath>

#include "backend.hpp"

namespace tutti::test {
namespace {

class OptimizerTest : public KernelTest {
  protected:
    /// A step changes each of m, v and p by a handful of operations on numbers of magnitude below 3.
    double tolerance(int steps) const { return 20 * steps * unit_roundoff_; }

    std::vector<double> after_three_steps(const SgdStep& settings) {
        auto p = tensor({4}, start), buffer = tensor({4});
        for (int t = 1; t <= 3; ++t) {
            auto g = tensor({4}, gradients[t - 1]);
            SgdStep step = settings;
            step.first_step = t == 1;
            ops_->sgd(step, g.view(), p.view(), step.momentum != 0 ? buffer.view() : TensorView{});
        }
        return p.values();
    }
    std::vector<double> after_three_steps(const AdamStep& settings) {
        auto p = tensor({4}, start), m = tensor({4}, {0, 0, 0, 0}), v = m;
        for (int t = 1; t <= 3; ++t) {
            auto g = tensor({4}, gradients[t - 1]);
            AdamStep step = settings;
            step.step = t;
            ops_->adam(step, g.view(), p.view(), m.view(), v.view());
        }
        return p.values();
    }

    const std::vector<double> start = {1.0, -0.5, 0.25, 2.0};
    const std::vector<double> gradients[3] = {
        {0.1, -0.2, 0.3, 0.0}, {0.5, 0.1, -0.3, -1.0}, {-0.2, 0.4, 0.0, 0.6}};
};
TUTTI_TEST_ON(OptimizerTest, backends);

// The expected numbers come from torch.optim of PyTorch 2 in float64.
TEST_P(OptimizerTest, sgd_agrees_with_pytorch) {
    expect_near(after_three_steps(SgdStep{.lr = 0.1}), {0.96, -0.53, 0.25, 2.04}, tolerance(3));
    expect_near(after_three_steps(SgdStep{.lr = 0.1, .weight_decay = 0.01}),
                {0.957072989, -0.5285314795, 0.24928071975, 2.033905998}, tolerance(3));
    expect_near(
        after_three_steps(SgdStep{.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.01}),
        {0.90793607296, -0.49054122688, 0.21311540064, 2.09388335872}, tolerance(3));
    expect_near(after_three_steps(SgdStep{.lr = 0.1, .momentum = 0.9, .dampening = 1, .weight_decay = 0.01}),
                {0.97019, -0.444445, 0.1680225, 1.99458}, tolerance(3));
    expect_near(
        after_three_steps(SgdStep{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
        {0.860358312551, -0.5304721733905, 0.22632165951525, 2.140568802282}, tolerance(3));
}

TEST_P(OptimizerTest, adam_agrees_with_pytorch) {
    expect_near(after_three_steps(AdamStep{.lr = 0.01, .weight_decay = 0.1}),
                {0.9745589179846366, -0.49043410086836364, 0.24020337315290183, 2.003083863665369},
                tolerance(3));
    expect_near(
        after_three_steps(AdamStep{
            .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1, .decoupled = false}),
        {0.9750330871659068, -0.489121162221213, 0.24010598226758056, 1.99428095477887}, tolerance(3));
}

TEST_P(OptimizerTest, sgd_updates_every_element_that_threads_share) {
    auto p = random({50021}, 1), buffer = tensor({50021});
    std::vector<double> expected = p.values(), b(p.size());
    for (int t = 1; t <= 4; ++t) {
        auto g = random({50021}, 10 + static_cast<unsigned>(t));
        for (std::size_t i = 0; i < p.size(); ++i) {
            const double decayed = g.get(i) + 0.05 * expected[i];
            b[i] = t == 1 ? decayed : 0.9 * b[i] + decayed;
            expected[i] -= 0.1 * b[i];
        }
        ops_->sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .first_step = t == 1}, g.view(),
                  p.view(), buffer.view());
    }
    expect_near(p.values(), expected, tolerance(4));
    expect_near(buffer.values(), b, tolerance(4));
}

TEST_P(OptimizerTest, adam_updates_every_element_that_threads_share) {
    auto p = random({50021}, 1), m = tensor({50021}), v = tensor({50021});
    ops_->fill(m.view(), 0);
    ops_->fill(v.view(), 0);
    std::vector<double> expected = p.values(), first(p.size()), second(p.size());
    for (int t = 1; t <= 4; ++t) {
        auto g = random({50021}, 10 + static_cast<unsigned>(t));
        for (std::size_t i = 0; i < p.size(); ++i) {
            expected[i] -= 0.01 * 0.1 * expected[i];
            first[i] = 0.9 * first[i] + 0.1 * g.get(i);
            second[i] = 0.99 * second[i] + 0.01 * g.get(i) * g.get(i);
            const double m_hat = first[i] / (1 - std::pow(0.9, t)),
                         v_hat = second[i] / (1 - std::pow(0.99, t));
            // eps far below √v̂ except for the smallest gradients, where it must act alike, too.
            expected[i] -= 0.01 * m_hat / (std::sqrt(v_hat) + 1e-3);
        }
        ops_->adam({.lr = 0.01, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.1, .step = t}, g.view(),
                   p.view(), m.view(), v.view());
    }
    expect_near(p.values(), expected, tolerance(4));
    expect_near(m.values(), first, tolerance(4));
    expect_near(v.values(), second, tolerance(4));
}

TEST_P(OptimizerTest, an_element_has_the_same_bits_wherever_it_lies) {
    // A resumed or differently sharded run cuts the arena elsewhere: vector body, remainder and threads must
    // agree.
    auto g = random({40000}, 1), p = random({40000}, 2), b = random({40000}, 3), whole = p, whole_b = b;
    ops_->sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, g.view(), whole.view(), whole_b.view());
    auto m = random({40000}, 4), v = tensor({40000}), adam_p = p, whole_p = p;
    ops_->fill(v.view(), 0.3);
    auto whole_m = m, whole_v = v;
    ops_->adam({.lr = 0.1, .step = 2}, g.view(), whole_p.view(), whole_m.view(), whole_v.view());
    const auto part = [&](TestTensor& tensor, std::int64_t begin, std::int64_t end) {
        return TensorView{tensor.view().data + static_cast<std::size_t>(begin) * size_of(dtype_), dtype_,
                          Shape{end - begin}};
    };
    const std::int64_t cuts[] = {0, 1, 3, 10, 33, 101, 39999, 40000};
    for (std::size_t i = 0; i + 1 < std::size(cuts); ++i) {
        const std::int64_t begin = cuts[i], end = cuts[i + 1];
        ops_->sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, part(g, begin, end),
                  part(p, begin, end), part(b, begin, end));
        ops_->adam({.lr = 0.1, .step = 2}, part(g, begin, end), part(adam_p, begin, end), part(m, begin, end),
                   part(v, begin, end));
    }
    EXPECT_EQ(p.bytes(), whole.bytes());
    EXPECT_EQ(b.bytes(), whole_b.bytes());
    EXPECT_EQ(adam_p.bytes(), whole_p.bytes());
    EXPECT_EQ(v.bytes(), whole_v.bytes());
}

TEST_P(OptimizerTest, a_nan_gradient_shows_in_the_parameter) {
    auto g = tensor({2}, {std::nan(""), 1}), p = tensor({2}, {1, 1}), m = tensor({2}, {0, 0}), v = m;
    ops_->adam({.lr = 0.1}, g.view(), p.view(), m.view(), v.view());
    EXPECT_TRUE(std::isnan(p.get(0)));
    EXPECT_FALSE(std::isnan(p.get(1)));
    ops_->sgd({.lr = 0.1}, g.view(), p.view(), {});
    EXPECT_TRUE(std::isnan(p.get(0)));
    EXPECT_FALSE(std::isnan(p.get(1)));
}

}  // namespace
}  // namespace tutti::test
