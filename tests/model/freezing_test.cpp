#include "tutti/model/freezing.hpp"

#include <gtest/gtest.h>

#include <map>

#include "graph_fixture.hpp"
#include "tests/train/cuda_step_models.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::fill_random;
using test::residuals;
using Parts = std::vector<std::string>;

constexpr std::int64_t batch = 3;

GraphSpec vit() {
    return build_vit({8, 8, 1}, {.dim = 16, .depth = 2, .heads = 2}, 4);
}
GraphSpec vit_by_tanh() {
    return build_vit({8, 8, 1}, {.dim = 16, .depth = 2, .heads = 2, .gelu = GeluForm::tanh}, 4);
}
GraphSpec lenet() {
    return build_lenet({12, 12, 1}, 4);
}

std::string refusal(GraphSpec spec, const Parts& parts, bool all_but = false) {
    try {
        freeze(spec, parts, all_but, "model.freeze");
    } catch (const UsageError& error) {
        return error.what();
    }
    return "none";
}

std::string refusal_of_statistics(const Parts& parts) {
    GraphSpec spec = residuals();
    freeze(spec, parts, false, "model.freeze");
    try {
        freeze_statistics(spec, "model.freeze_statistics");
    } catch (const UsageError& error) {
        return error.what();
    }
    return "none";
}

/// The gradients of one step by name, and the bytes of the activations.
struct Step {
    std::map<std::string, std::vector<double>> gradients;
    std::vector<NamedTensor> weights;
    GraphMemory memory;
};

Step step_of(GraphSpec spec, const Parts& parts, bool all_but, bool recompute = false) {
    freeze(spec, parts, all_but, "model.freeze");
    const auto device = make_cpu_device(1);
    Graph graph(std::move(spec), *device, DType::f64, batch, recompute);
    graph.initialize(5);
    const std::vector<std::int64_t> positions{0, 1, 2};
    const StepContext context{.positions = positions};
    fill_random(graph.input(batch), 3);
    graph.forward(batch, context);
    fill_random(graph.output_gradient(batch), 4);
    std::vector<std::size_t> ready;
    graph.backward(batch, context, [&](std::size_t parameter) { ready.push_back(parameter); });
    EXPECT_EQ(ready.size(), graph.parameters().size());
    Step step;
    const auto values = graph.gradient_arena().span<double>();
    for (const Parameter& parameter : graph.parameters()) {
        const auto first = values.begin() + parameter.offset;
        step.gradients[parameter.name] = {first, first + parameter.count};
    }
    step.weights = graph.save();
    step.memory = graph.memory();
    return step;
}

struct Case {
    const char* name;
    GraphSpec (*model)();
    Parts parts;
    bool all_but;
};
const Case cases[] = {
    {"a head alone", vit, {"head"}, true},
    {"the last block and what is behind it", vit, {"blocks.1", "norm", "head"}, true},
    {"the second half of a block", vit, {"blocks.1.mlp.fc2", "head"}, true},
    {"the first layer alone", vit, {"patch_embed"}, true},
    {"biases alone", vit, {"blocks.0.attn.qkv.bias", "blocks.1.mlp.fc1.bias"}, true},
    {"a block between", vit, {"blocks.0"}, false},
    {"by tanh", vit_by_tanh, {"patch_embed", "blocks.0.mlp.fc1"}, false},
    {"tokens alone frozen", vit, {"cls_token", "pos_embed"}, false},
    {"a stem", residuals, {"stem", "stem_norm", "first"}, false},
    {"a residual network's head", residuals, {"fc"}, true},
    {"a norm behind a frozen convolution", residuals, {"second_norm", "fc"}, true},
    {"the way around a block", residuals, {"shortcut", "shortcut_norm"}, true},
    {"the first block", residuals, {"first", "first_norm"}, true},
    {"convolutions", lenet, {"conv1", "conv2"}, false},
    {"the first convolution", lenet, {"conv1"}, true},
};

/// The steps of `cases` without anything frozen, by the model.
const Step& whole_step_of(GraphSpec (*model)()) {
    static std::map<GraphSpec (*)(), Step> steps;
    const auto found = steps.find(model);
    return found != steps.end() ? found->second
                                : steps.emplace(model, step_of(model(), {}, false)).first->second;
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(values[i], expected[i], 1e-12 * std::max(1.0, std::abs(expected[i])));
}

TEST(Freezing, leaves_the_gradients_and_first_values_of_all_others_as_they_are) {
    for (const Case& one : cases) {
        SCOPED_TRACE(one.name);
        const Step &whole = whole_step_of(one.model), some = step_of(one.model(), one.parts, one.all_but);
        for (const auto& [name, expected] : whole.gradients) {
            SCOPED_TRACE(name);
            const bool named = std::ranges::any_of(
                one.parts, [&](const std::string& part) { return names_tensor(part, name); });
            const auto found = some.gradients.find(name);
            ASSERT_EQ(found != some.gradients.end(), named == one.all_but);
            // Where GELU is not in the products of both neighbours, it rounds otherwise.
            if (named == one.all_but) expect_near(found->second, expected);
        }
        EXPECT_LT(some.memory.gradients, whole.memory.gradients);
        // Running statistics have followed the batch.
        ASSERT_EQ(some.weights.size(), whole.weights.size());
        for (std::size_t i = 0; i < whole.weights.size(); ++i) {
            EXPECT_EQ(some.weights[i].name, whole.weights[i].name);
            EXPECT_EQ(some.weights[i].bytes, whole.weights[i].bytes) << whole.weights[i].name;
        }
        const Step again = step_of(one.model(), one.parts, one.all_but, true);
        EXPECT_TRUE(some.gradients == again.gradients) << "with recomputation";
        EXPECT_LE(again.memory.activations, some.memory.activations);
    }
}

TEST(Freezing, keeps_no_activations_for_layers_without_backward) {
    const auto activations = [](GraphSpec spec, const Parts& parts) {
        return static_cast<double>(step_of(std::move(spec), parts, true).memory.activations);
    };
    const double whole = static_cast<double>(step_of(residuals(), {}, false).memory.activations);
    // What is left are the input, and what two neighbours of a block need at once.
    EXPECT_LT(activations(residuals(), {"fc"}), 0.5 * whole);
    EXPECT_LT(activations(vit(), {"head"}),
              0.5 * static_cast<double>(step_of(vit(), {}, false).memory.activations));
    EXPECT_EQ(step_of(residuals(), {"fc"}, true).memory.discarded, 0u);
    EXPECT_GT(step_of(residuals(), {"stem"}, true).memory.discarded, 0u);
}

TEST(Freezing, loads_and_gives_away_what_is_frozen) {
    const auto device = make_cpu_device(1);
    GraphSpec spec = lenet();
    freeze(spec, Parts{"conv1"}, false, "model.freeze");
    Graph graph(std::move(spec), *device, DType::f64, batch), other(lenet(), *device, DType::f64, batch);
    graph.initialize(1);
    other.initialize(2);
    graph.load(other.save(), "a test");
    const auto bytes_of = [](const std::vector<NamedTensor>& tensors) {
        std::map<std::string, std::vector<std::byte>> result;
        for (const NamedTensor& tensor : tensors) result[tensor.name] = tensor.bytes;
        return result;
    };
    EXPECT_EQ(bytes_of(graph.save()), bytes_of(other.save()));
    // Behind the arena, and not in it: the optimizer's state has no such names.
    ASSERT_EQ(graph.frozen_parameters().size(), 2u);
    for (const Parameter& parameter : graph.frozen_parameters())
        EXPECT_GE(parameter.offset, graph.parameter_arena().count());
    EXPECT_EQ(graph.all_parameters().count(), other.parameter_arena().count());
    EXPECT_EQ(bytes_of(graph.save_arena(graph.gradient_arena(), "")).count("conv1.weight"), 0u);
}

TEST(Freezing, reports_what_is_not_computed) {
    const auto device = make_cpu_device(1);
    GraphSpec spec = lenet();
    freeze(spec, Parts{"fc1.weight", "fc2"}, true, "model.freeze");
    const Graph graph(std::move(spec), *device, DType::f64, batch);
    for (const Graph::LayerReport& row : graph.report()) {
        SCOPED_TRACE(row.name);
        if (row.name.starts_with("conv")) {
            EXPECT_GT(row.forward_flops, 0);
            EXPECT_EQ(row.backward_flops, 0);
            EXPECT_EQ(row.frozen, row.parameters);
        }
        // Nobody needs the gradient of its input.
        if (row.name == "fc1") {
            EXPECT_EQ(row.backward_flops, row.forward_flops);
            EXPECT_EQ(row.frozen, 128);
        }
        if (row.name == "fc2") {
            EXPECT_EQ(row.backward_flops, 2 * row.forward_flops);
        }
    }
}

TEST(Freezing, refuses_names_of_nothing_and_nothing_to_train) {
    EXPECT_EQ(refusal(lenet(), {"conv1", "fc2.bias"}), "none");
    EXPECT_NE(refusal(lenet(), {"conv1", "conv3"}).find("model.freeze: conv3 names no weights of the model"),
              std::string::npos);
    EXPECT_NE(refusal(vit(), {"blocks.0.atn"}).find("did you mean blocks.0.attn?"), std::string::npos);
    EXPECT_NE(refusal(lenet(), {"conv"}).find("names no weights"), std::string::npos);
    EXPECT_NE(refusal(lenet(), {"conv1", "conv2", "fc1", "fc2"}).find("leaves nothing to train"),
              std::string::npos);
    EXPECT_EQ(refusal_of_statistics({"stem_norm"}), "none");
    for (const std::string part : {"stem", "stem_norm.weight"})
        EXPECT_NE(refusal_of_statistics({part}).find("model.freeze_statistics: no batch norm of the model is "
                                                     "frozen; freeze weight and bias"),
                  std::string::npos)
            << part;
    // Statistics are no weights.
    EXPECT_NE(refusal(residuals(), {"stem_norm.running_mean"}).find("names no weights"), std::string::npos);
}

}  // namespace
}  // namespace tutti
