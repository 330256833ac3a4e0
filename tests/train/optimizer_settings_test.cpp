// Each setting of `optim` reaches the update rule: three steps against the papers' and PyTorch's formulas,
// written out here once more.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tutti/model/zoo.hpp"
#include "tutti/train/optimizer.hpp"

namespace tutti {
namespace {

/// One parameter with what its optimizer keeps; `a` and `b` are the moments, or the averages of adadelta.
struct Reference {
    bool decayed = true, of_first_layer = false;
    std::vector<double> p{}, a{}, b{};

    void step(const OptimConfig& c, double lr, int t, const std::vector<double>& gradient) {
        if (of_first_layer) lr *= c.layer_decay;
        const double decay = decayed ? c.weight_decay : 0;
        const bool is_decoupled = c.name == "adamw" || c.name == "lamb";
        std::vector<double> update(p.size());
        for (std::size_t i = 0; i < p.size(); ++i) {
            const double g = gradient[i] + (is_decoupled ? 0 : decay * p[i]);
            if (c.name == "sgd")
                update[i] = sgd(c, t, g, a[i]);
            else if (c.name == "adadelta")
                update[i] = adadelta(c, g, a[i], b[i]);
            else
                update[i] = adam(c, t, g, a[i], b[i]);
            if (is_decoupled) update[i] += decay * p[i];
        }
        if (c.name == "lamb") lr *= norm(p) / norm(update);
        for (std::size_t i = 0; i < p.size(); ++i) p[i] -= lr * update[i];
    }

  private:
    static double sgd(const OptimConfig& c, int t, double g, double& buffer) {
        if (c.momentum == 0) return g;  // dampening is the momentum's
        buffer = t == 1 ? g : c.momentum * buffer + (1 - c.dampening) * g;
        return c.nesterov ? g + c.momentum * buffer : buffer;
    }
    static double adam(const OptimConfig& c, int t, double g, double& m, double& v) {
        m = c.betas[0] * m + (1 - c.betas[0]) * g;
        v = c.betas[1] * v + (1 - c.betas[1]) * g * g;
        return m / (1 - std::pow(c.betas[0], t)) / (std::sqrt(v / (1 - std::pow(c.betas[1], t))) + c.eps);
    }
    static double adadelta(const OptimConfig& c, double g, double& squares, double& deltas) {
        squares = c.rho * squares + (1 - c.rho) * g * g;
        const double delta = std::sqrt(deltas + c.eps) / std::sqrt(squares + c.eps) * g;
        deltas = c.rho * deltas + (1 - c.rho) * delta * delta;
        return delta;
    }
    static double norm(const std::vector<double>& values) {
        double sum = 0;
        for (const double value : values) sum += value * value;
        return std::sqrt(sum);
    }
};

class OptimizerSettings : public ::testing::Test {
  protected:
    /// The parameters after three steps with different gradients; by what the formulas say, and by
    /// make_optimizer.
    std::vector<double> expected(const OptimConfig& config) {
        std::vector<double> result;
        graph_.initialize(1);
        for (const Parameter& parameter : graph_.parameters()) {
            Reference reference;
            reference.decayed = config.decay_1d || parameter.spec.file_shape.rank() > 1;
            reference.of_first_layer = parameter.name.starts_with("fc1.");
            reference.p = of(graph_.parameter_arena(), parameter);
            reference.a = reference.b = std::vector<double>(reference.p.size());
            for (int t = 1; t <= 3; ++t) {
                std::vector<double> gradient;
                for (std::int64_t i = 0; i < parameter.count; ++i)
                    gradient.push_back(gradient_of(parameter.offset + i, t));
                reference.step(config, config.lr, t, gradient);
            }
            result.insert(result.end(), reference.p.begin(), reference.p.end());
        }
        return result;
    }
    std::vector<double> found(const OptimConfig& config) {
        graph_.initialize(1);
        const auto optimizer = make_optimizer(config, graph_, *device_);
        const auto gradients = graph_.gradient_arena().span<double>();
        for (int t = 1; t <= 3; ++t) {
            for (std::size_t i = 0; i < gradients.size(); ++i)
                gradients[i] = gradient_of(static_cast<std::int64_t>(i), t);
            optimizer->step(config.lr, t);
        }
        std::vector<double> result;
        for (const Parameter& parameter : graph_.parameters()) {
            const auto values = of(graph_.parameter_arena(), parameter);
            result.insert(result.end(), values.begin(), values.end());
        }
        return result;
    }
    static double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
        double largest = a.size() == b.size() ? 0 : INFINITY;
        for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
            largest = std::max(largest, std::abs(a[i] - b[i]));
        return largest;
    }

  private:
    static double gradient_of(std::int64_t element, int t) {
        return std::sin(static_cast<double>(5 * element + 7 * t)) * 0.2 * t;
    }
    static std::vector<double> of(const TensorView& arena, const Parameter& parameter) {
        const auto values = arena.span<double>().subspan(static_cast<std::size_t>(parameter.offset),
                                                         static_cast<std::size_t>(parameter.count));
        return {values.begin(), values.end()};
    }
    static GraphSpec spec() {
        const std::vector<std::int64_t> hidden = {3};
        return build_mlp({4}, hidden, 2);
    }
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    Graph graph_{spec(), *device_, DType::f64, 1};
};

struct Setting {
    std::string name;
    std::function<void(OptimConfig&)> set;
};

TEST_F(OptimizerSettings, each_alone_and_all_together_make_the_steps_of_the_formula) {
    const Setting decay{"weight_decay", [](OptimConfig& c) { c.weight_decay = 0.1; }};
    const Setting vectors{"decay_1d", [](OptimConfig& c) { c.decay_1d = false; }};
    const Setting layers{"layer_decay", [](OptimConfig& c) { c.layer_decay = 0.5; }};
    const Setting momentum{"momentum", [](OptimConfig& c) { c.momentum = 0.6; }};
    const Setting dampening{"dampening", [](OptimConfig& c) { c.dampening = 0.3; }};
    const Setting nesterov{"nesterov", [](OptimConfig& c) { c.nesterov = true; }};
    const Setting beta1{"betas[0]", [](OptimConfig& c) { c.betas[0] = 0.8; }};
    const Setting beta2{"betas[1]", [](OptimConfig& c) { c.betas[1] = 0.95; }};
    const Setting eps{"eps", [](OptimConfig& c) { c.eps = 1e-3; }};
    const Setting rho{"rho", [](OptimConfig& c) { c.rho = 0.7; }};
    const std::vector<std::pair<std::string, std::vector<Setting>>> table{
        {"sgd", {decay, vectors, layers, momentum, dampening}},
        {"sgd", {decay, vectors, layers, momentum, nesterov}},
        {"adam", {decay, vectors, layers, beta1, beta2, eps}},
        {"adamw", {decay, vectors, layers, beta1, beta2, eps}},
        {"adadelta", {decay, vectors, layers, rho, eps}},
        {"lamb", {decay, vectors, layers, beta1, beta2, eps}}};
    for (const auto& [name, settings] : table) {
        const auto with_all_but = [&, &name = name, &settings = settings](const std::string& left_out) {
            OptimConfig config;
            config.name = name;
            config.lr = 0.1;
            for (const Setting& setting : settings)
                if (setting.name != left_out) setting.set(config);
            return config;
        };
        const std::vector<double> all = found(with_all_but(""));
        EXPECT_LT(largest_difference(all, expected(with_all_but(""))), 1e-13) << name;
        for (const Setting& setting : settings) {
            const std::vector<double> others = found(with_all_but(setting.name));
            EXPECT_LT(largest_difference(others, expected(with_all_but(setting.name))), 1e-13)
                << name << " without " << setting.name;
            EXPECT_GT(largest_difference(others, all), 1e-6) << name << "." << setting.name;
        }
    }
}

}  // namespace
}  // namespace tutti
