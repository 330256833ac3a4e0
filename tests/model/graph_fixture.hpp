#pragma once
// Graphs on the CPU with known inputs, and their gradients by finite differences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tutti/device/device.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"

namespace tutti::test {

/// One type for all values of a graph.
inline std::vector<DType> of_f32(const GraphSpec& spec) {
    return std::vector<DType>(spec.nodes().size(), DType::f32);
}
inline std::vector<DType> of_f64(const GraphSpec& spec) {
    return std::vector<DType>(spec.nodes().size(), DType::f64);
}

/// Fills with uniform values in [-1, 1): far enough from the kinks of ReLU and max-pool for a step of 1e-6 to
/// cross one rarely; the seeds of the tests are chosen so that none does.
inline void fill_random(const TensorView& view, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    if (view.dtype == DType::f64)
        for (double& x : view.span<double>()) x = uniform(random);
    else
        for (float& x : view.span<float>()) x = static_cast<float>(uniform(random));
}

/// What the layer of this name alone makes of ones, in training; takes it out of the graph. Its output has
/// the shape of its input.
inline std::vector<double> made_of_ones(GraphSpec& spec, const std::string& name, std::int64_t samples) {
    for (GraphSpec::Node& node : spec.nodes()) {
        if (node.name != name) continue;
        GraphSpec alone(node.layer->output_shape());
        alone.add(name, std::move(node.layer), {0});
        const auto device = make_cpu_device(1);
        Graph graph(std::move(alone), *device, DType::f64, samples);
        graph.initialize(1);
        std::ranges::fill(graph.input(samples).span<double>(), 1.0);
        std::vector<std::int64_t> positions(static_cast<std::size_t>(samples));
        std::iota(positions.begin(), positions.end(), 0);
        const auto output = graph.forward(samples, {.seed = 5, .positions = positions}).span<double>();
        return {output.begin(), output.end()};
    }
    throw std::out_of_range(name);
}

/// Of ones, each is dropped with this probability, and what is kept is scaled. Four standard deviations.
inline void expect_dropped(const std::vector<double>& values, double probability) {
    double dropped = 0;
    for (const double value : values) {
        if (value == 0)
            ++dropped;
        else
            ASSERT_DOUBLE_EQ(value, 1 / (1 - probability));
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(dropped / count, probability, 4 * std::sqrt(probability * (1 - probability) / count));
}

/// The same of whole samples, each of which is kept or dropped as one.
inline void expect_samples_dropped(const std::vector<double>& values, std::size_t samples,
                                   double probability) {
    const std::size_t each = values.size() / samples;
    std::vector<double> firsts;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (i % each == 0)
            firsts.push_back(values[i]);
        else
            ASSERT_EQ(values[i], firsts.back()) << "a sample is dropped as a whole";
    expect_dropped(firsts, probability);
}

/// Σ over the output of random weights × output: a scalar whose gradient is known at the output.
class GradientCheck {
  public:
    explicit GradientCheck(GraphSpec spec, std::int64_t batch)
        : device_(make_cpu_device(1)), graph_(std::move(spec), *device_, DType::f64, batch), batch_(batch) {
        graph_.initialize(3);
        weights_.resize(static_cast<std::size_t>(graph_.output_shape().count() * batch_));
        fill_random(view_of(std::span(weights_)), 12);
        for (std::int64_t n = 0; n < batch; ++n) positions_.push_back(10 * n);
        step_.positions = positions_;
    }

    /// Compares all parameter gradients with central differences.
    void expect_gradients(double tolerance) {
        objective();
        run_backward();
        const std::vector<double> gradients(graph_.gradient_arena().span<double>().begin(),
                                            graph_.gradient_arena().span<double>().end());
        const auto values = graph_.parameter_arena().span<double>();
        for (const Parameter& parameter : graph_.parameters()) {
            for (std::int64_t i = 0; i < parameter.count; ++i) {
                const auto at = static_cast<std::size_t>(parameter.offset + i);
                const double expected = difference(values[at]);
                ASSERT_NEAR(gradients[at], expected, tolerance * std::max(1.0, std::abs(expected)))
                    << parameter.name << " element " << i;
            }
        }
    }

    Graph& graph() { return graph_; }
    double objective() {
        fill_random(graph_.input(batch_), 11);  // whose memory is used again where backward does not read it
        const TensorView output = graph_.forward(batch_, step_);
        double sum = 0;
        for (std::size_t i = 0; i < weights_.size(); ++i) sum += weights_[i] * output.span<double>()[i];
        return sum;
    }
    void run_backward() {
        std::copy(weights_.begin(), weights_.end(), graph_.output_gradient(batch_).span<double>().begin());
        graph_.backward(batch_, step_, {});
    }

  private:
    double difference(double& value) {
        const double h = 1e-6, saved = value;
        value = saved + h;
        const double above = objective();
        value = saved - h;
        const double below = objective();
        value = saved;
        return (above - below) / (2 * h);
    }

    std::unique_ptr<Device> device_;
    Graph graph_;
    std::int64_t batch_;
    std::vector<double> weights_;
    std::vector<std::int64_t> positions_;
    StepContext step_;
};

}  // namespace tutti::test
