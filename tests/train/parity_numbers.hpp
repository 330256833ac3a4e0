#pragma once
// The numbers that references made with PyTorch and the tests that read them both draw; the rules are in
// tests/parity/make_resnet_reference.py.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/base/named_tensor.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/optimizer.hpp"

namespace tutti::test {

inline double parity_uniform(std::mt19937& source) {
    return static_cast<double>(source() & 0xFFFFFFu) * 0x1p-24;
}

inline double* doubles(NamedTensor& tensor) {
    return reinterpret_cast<double*>(tensor.bytes.data());
}

/// SGD as the reference's "sgd" has it.
inline OptimConfig parity_sgd(const nlohmann::json& sgd) {
    OptimConfig config;
    config.lr = sgd["lr"];
    config.momentum = sgd["momentum"];
    config.weight_decay = sgd["weight_decay"];
    return config;
}

/// Of a graph in fp64.
inline void set_parity_weights(Graph& graph) {
    std::mt19937 source(1);
    std::vector<NamedTensor> tensors = graph.save();
    for (NamedTensor& tensor : tensors) {
        if (tensor.name.find("running") != std::string::npos || tensor.dtype == DType::i64) continue;
        const auto count = static_cast<std::size_t>(tensor.shape.count());
        const std::size_t rank = tensor.shape.rank();
        const double fan_in = static_cast<double>(tensor.shape.count() / tensor.shape[0]);
        const double bound = 1 / std::sqrt(fan_in), shift = tensor.name.ends_with("weight") ? 0.5 : -0.5;
        for (std::size_t i = 0; i < count; ++i)
            doubles(tensor)[i] =
                rank > 1 ? (2 * parity_uniform(source) - 1) * bound : parity_uniform(source) + shift;
    }
    graph.load(tensors, "the reference's weights");
}

/// Norm and dot products with vectors of random numbers, which see an error of any element.
inline void expect_parity(NamedTensor& tensor, const nlohmann::json& expected, double tolerance) {
    const auto count = static_cast<std::size_t>(tensor.shape.count());
    double squares = 0;
    for (std::size_t i = 0; i < count; ++i) squares += doubles(tensor)[i] * doubles(tensor)[i];
    const double norm = expected[0];
    EXPECT_NEAR(std::sqrt(squares), norm, tolerance * norm) << tensor.name;
    for (unsigned d = 1; d < expected.size(); ++d) {
        std::mt19937 source(100 + d);
        double dot = 0;
        for (std::size_t i = 0; i < count; ++i) dot += doubles(tensor)[i] * (parity_uniform(source) - 0.5);
        EXPECT_NEAR(dot, expected[d].get<double>(), tolerance * norm) << tensor.name;
    }
}

/// Trains a graph in fp64 as the reference was: names, the losses of all steps, the first one's gradients.
/// draw() fills the graph's input and `wanted` with the next batch.
template <class Draw>
void expect_parity_of_training(Graph& graph, Device& device, Loss& loss, const TensorView& wanted,
                               const nlohmann::json& reference, const Draw& draw) {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : graph.save()) names.push_back(tensor.name);
    EXPECT_EQ(names, reference["names"].get<std::vector<std::string>>());
    set_parity_weights(graph);
    const OptimConfig config = parity_sgd(reference["sgd"]);
    const auto optimizer = make_optimizer(config, graph, device);
    const std::int64_t batch = wanted.shape[0];
    const nlohmann::json& losses = reference["losses"];
    for (std::size_t number = 0; number < losses.size(); ++number) {
        draw();
        const TensorView outputs = graph.forward(batch, {});
        const LossSums sums = loss.forward(outputs, wanted, graph.output_gradient(batch));
        loss.backward(wanted, 1 / sums.weight, graph.output_gradient(batch));
        graph.backward(batch, {}, {});
        const double expected = losses[number];
        EXPECT_NEAR(sums.loss / sums.weight, expected, 1e-9 * expected) << "step " << number + 1;
        if (number == 0)
            for (NamedTensor& tensor : graph.save_arena(graph.gradient_arena(), ""))
                expect_parity(tensor, reference["gradients"].at(tensor.name), 1e-8);
        optimizer->step(config.lr, static_cast<std::int64_t>(number) + 1);
    }
}

}  // namespace tutti::test
