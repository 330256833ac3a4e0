#include "tutti/model/graph.hpp"

#include "graph_fixture.hpp"
#include "sum_layer.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::fill_random;
using test::GradientCheck;
using test::Sum;

const std::vector<std::int64_t> two_hidden = {6, 5};

TEST(Graph, MlpGradientsAgreeWithFiniteDifferences) {
    GradientCheck(build_mlp({7}, two_hidden, 3), 4).expect_gradients(1e-7);
}

TEST(Graph, AValueWithThreeReadersGetsTheSumOfTheirGradients) {
    GraphSpec graph({4});
    const NodeId a = graph.add("a", make_linear({4}, 5, true), {0});
    const NodeId b = graph.add("b", make_linear({5}, 5, true), {a});
    const NodeId c = graph.add("c", make_relu({5}), {a});
    const NodeId s = graph.add("s", std::make_unique<Sum>(Shape{5}), {b, c});
    graph.add("t", std::make_unique<Sum>(Shape{5}), {s, a});
    GradientCheck(std::move(graph), 3).expect_gradients(1e-7);
}

TEST(Graph, AViewOfAValueWithOtherReadersPassesItsGradientOn) {
    GraphSpec graph({2, 2, 2});
    Conv2dOptions conv;
    conv.out = 2;
    const NodeId a = graph.add("a", make_conv2d({2, 2, 2}, conv), {0});
    const NodeId flat = graph.add("flat", make_flatten(graph.shape(a)), {a});
    const NodeId left = graph.add("left", make_linear({8}, 3, true, {2, 2, 2}), {flat});
    const NodeId right = graph.add("right", make_linear({2, 2, 2}, 3, true), {a});
    graph.add("sum", std::make_unique<Sum>(Shape{3}), {left, right});
    GradientCheck(std::move(graph), 2).expect_gradients(1e-7);
}

TEST(Graph, RefusesSizesThatDoNotFitIntoTheirIntegers) {
    EXPECT_THROW(GraphSpec({std::int64_t{1} << 31, std::int64_t{1} << 31, 4}), UsageError);
    const auto device = make_cpu_device(1);
    EXPECT_THROW(Graph(build_mlp({7}, two_hidden, 3), *device, DType::f32, std::int64_t{1} << 52), RunError);
}

TEST(Graph, ParametersLieInTheOrderOfBackward) {
    const auto device = make_cpu_device(1);
    const Graph graph(build_mlp({7}, two_hidden, 3), *device, DType::f32, 4);
    std::vector<std::string> names;
    for (const Parameter& parameter : graph.parameters()) names.push_back(parameter.name);
    EXPECT_EQ(names, (std::vector<std::string>{"fc3.bias", "fc3.weight", "fc2.bias", "fc2.weight", "fc1.bias",
                                               "fc1.weight"}));
}

TEST(Graph, ParametersAreAlignedAndDoNotOverlap) {
    const auto device = make_cpu_device(1);
    const Graph graph(build_mlp({7}, two_hidden, 3), *device, DType::f32, 4);
    std::int64_t end = 0;
    for (const Parameter& parameter : graph.parameters()) {
        EXPECT_EQ(parameter.offset * 4 % 64, 0);
        EXPECT_GE(parameter.offset, end);
        end = parameter.offset + parameter.count;
    }
    EXPECT_LE(end, graph.parameter_arena().count());
}

TEST(Graph, AnnouncesEachGradientOnceInTheOrderOfTheArena) {
    const auto device = make_cpu_device(1);
    Graph graph(build_mlp({7}, two_hidden, 3), *device, DType::f32, 4);
    for (const std::int64_t batch : {4, 1, 0}) {
        std::vector<std::size_t> order;
        graph.forward(batch, {});
        graph.backward(batch, {}, [&](std::size_t parameter) { order.push_back(parameter); });
        EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5})) << "batch " << batch;
    }
}

TEST(Graph, AnEmptyBatchZeroesAllGradients) {
    const auto device = make_cpu_device(1);
    Graph graph(build_mlp({7}, two_hidden, 3), *device, DType::f64, 4);
    graph.initialize(0);
    fill_random(graph.gradient_arena(), 1);
    graph.forward(0, {});
    graph.backward(0, {}, {});
    for (const double g : graph.gradient_arena().span<double>()) EXPECT_EQ(g, 0.0);
}

TEST(Graph, ASmallerBatchGivesTheSameOutputs) {
    const auto device = make_cpu_device(1);
    Graph graph(build_lenet({8, 8, 1}, 3), *device, DType::f64, 5);
    graph.initialize(1);
    fill_random(graph.input(5), 2);
    const TensorView all = graph.forward(5, {});
    const std::vector<double> expected(all.span<double>().begin(), all.span<double>().begin() + 2 * 3);
    fill_random(graph.input(5), 2);
    const TensorView two = graph.forward(2, {});
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(two.span<double>()[i], expected[i], 1e-14);
}

TEST(Graph, Fp32AgreesWithFp64) {
    const auto device = make_cpu_device(1);
    Graph wide(build_lenet({12, 12, 2}, 5), *device, DType::f64, 6);
    Graph narrow(build_lenet({12, 12, 2}, 5), *device, DType::f32, 6);
    wide.initialize(1);
    narrow.load(wide.save(), "the wide graph");
    fill_random(wide.input(6), 2);
    fill_random(narrow.input(6), 2);
    const TensorView a = wide.forward(6, {}), b = narrow.forward(6, {});
    for (std::size_t i = 0; i < 30; ++i) EXPECT_NEAR(a.span<double>()[i], b.span<float>()[i], 2e-6);
    fill_random(wide.output_gradient(6), 3);
    fill_random(narrow.output_gradient(6), 3);
    wide.backward(6, {}, {});
    narrow.backward(6, {}, {});
    const auto big = wide.save_arena(wide.gradient_arena(), ""),
               small = narrow.save_arena(narrow.gradient_arena(), "");
    for (std::size_t t = 0; t < big.size(); ++t) {
        const auto* x = reinterpret_cast<const double*>(big[t].bytes.data());
        const auto* y = reinterpret_cast<const float*>(small[t].bytes.data());
        double norm = 0, error = 0;
        for (std::int64_t i = 0; i < big[t].shape.count(); ++i) {
            norm += x[i] * x[i];
            error += (x[i] - y[i]) * (x[i] - y[i]);
        }
        EXPECT_LT(std::sqrt(error), 3e-6 * std::sqrt(norm)) << big[t].name;
    }
}

/// Writes down the calls as "+forward 0", "-forward 0", ….
struct CallList final : GraphObserver {
    void forward_begins(std::size_t layer) override { add("+forward", layer); }
    void forward_ends(std::size_t layer) override { add("-forward", layer); }
    void backward_begins(std::size_t layer) override { add("+backward", layer); }
    void backward_ends(std::size_t layer) override { add("-backward", layer); }
    void add(const std::string& what, std::size_t number) {
        calls.push_back(what + " " + std::to_string(number));
    }
    std::vector<std::string> calls;
};

TEST(Graph, TellsItsObserverWhenLayersRunAndCallsProgressBetweenThem) {
    const auto device = make_cpu_device(1);
    const std::vector<std::int64_t> hidden = {3};
    Graph graph(build_mlp({4}, hidden, 2), *device, DType::f64, 1);
    ASSERT_EQ(graph.report().size(), 3u);
    CallList list;
    graph.observe(&list);
    graph.set_progress([&] { list.calls.emplace_back("progress"); });
    graph.forward(1, {});
    EXPECT_EQ(list.calls, (std::vector<std::string>{"+forward 0", "-forward 0", "+forward 1", "-forward 1",
                                                    "+forward 2", "-forward 2"}));
    list.calls.clear();
    graph.backward(1, {}, [&](std::size_t parameter) { list.add("ready", parameter); });
    EXPECT_EQ(list.calls,
              (std::vector<std::string>{"+backward 2", "ready 0", "ready 1", "-backward 2", "progress",
                                        "+backward 1", "-backward 1", "progress", "+backward 0",
                                        "-backward 0", "ready 2", "ready 3", "progress"}));
    list.calls.clear();
    graph.observe(nullptr);
    graph.set_progress({});
    graph.forward(1, {});
    graph.backward(1, {}, {});
    EXPECT_TRUE(list.calls.empty());
}

TEST(Graph, AnnouncedGradientsStayAsTheyWere) {
    const auto device = make_cpu_device(1);
    Graph graph(build_lenet({12, 12, 2}, 5), *device, DType::f32, 6);
    graph.initialize(1);
    fill_random(graph.input(6), 2);
    graph.forward(6, {});
    fill_random(graph.output_gradient(6), 3);
    const std::span<const float> arena = graph.gradient_arena().span<float>();
    const auto of = [&](std::size_t p) {
        const Parameter& parameter = graph.parameters()[p];
        const auto begin = arena.begin() + parameter.offset;
        return std::vector<float>(begin, begin + parameter.count);
    };
    std::vector<std::vector<float>> announced;
    graph.backward(6, {}, [&](std::size_t p) {
        EXPECT_EQ(p, announced.size());
        announced.push_back(of(p));
    });
    ASSERT_EQ(announced.size(), graph.parameters().size());
    for (std::size_t p = 0; p < announced.size(); ++p) EXPECT_EQ(announced[p], of(p)) << p;
}

TEST(Graph, ReportsLayersAndMemory) {
    const auto device = make_cpu_device(1);
    const Graph graph(build_lenet({28, 28, 1}, 10), *device, DType::f32, 64);
    std::int64_t parameters = 0;
    for (const auto& row : graph.report()) parameters += row.parameters;
    EXPECT_EQ(parameters, 320 + 18496 + 401536 + 1290);
    EXPECT_GE(graph.memory().parameters, static_cast<std::size_t>(parameters) * 4);
    EXPECT_EQ(graph.report().front().forward_flops, 2.0 * 28 * 28 * 32 * 9);
}

}  // namespace
}  // namespace tutti
