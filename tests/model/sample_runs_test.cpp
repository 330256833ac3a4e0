#include "sample_runs.hpp"

#include "activation_plan.hpp"
#include "graph_fixture.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

VitOptions small_vit() {
    VitOptions options;
    options.patch = 4;
    options.dim = 32;
    options.depth = 3;
    options.heads = 2;
    options.drop_path = 0.3;
    return options;
}

TEST(SampleRuns, HoldLayersThatTreatSamplesApartWhoseParametersFitIntoTheCache) {
    const GraphSpec graph = build_vit({16, 16, 1}, small_vit(), 10);
    constexpr std::size_t cache = 64 << 10;
    const std::vector<SampleRun> runs = find_sample_runs(graph.nodes(), 4, 64, cache);
    ASSERT_GE(runs.size(), 2U);
    std::size_t before = 0;
    for (const SampleRun& run : runs) {
        EXPECT_GT(run.first, before);
        EXPECT_GT(run.last, run.first);
        before = run.last;
        std::size_t parameters = 0;
        for (std::size_t i = run.first; i <= run.last; ++i) {
            const auto& node = graph.nodes()[i];
            EXPECT_TRUE(node.layer->treats_samples_apart()) << node.name;
            for (const ParameterSpec& one : node.layer->parameters())
                parameters += static_cast<std::size_t>(one.file_shape.count()) * 4;
            std::int64_t elements = node.shape.count();
            for (const NodeId input : node.inputs) elements += graph.shape(input).count();
            EXPECT_LE(static_cast<std::size_t>(elements * run.samples) * 4, cache) << node.name;
        }
        EXPECT_LE(parameters, cache);
    }
}

TEST(SampleRuns, ThereAreNoneWhereTheBatchFitsOrThereIsNoCache) {
    const GraphSpec graph = build_vit({16, 16, 1}, small_vit(), 10);
    EXPECT_FALSE(find_sample_runs(graph.nodes(), 4, 64, 64 << 10).empty());
    EXPECT_TRUE(find_sample_runs(graph.nodes(), 4, 64, 64 << 20).empty());
    EXPECT_TRUE(find_sample_runs(graph.nodes(), 4, 1, 64 << 10).empty());
    EXPECT_TRUE(find_sample_runs(graph.nodes(), 4, 64, 0).empty());
}

TEST(SampleRuns, KeepMemoryThatOtherSamplesStillRead) {
    GraphSpec graph({8});
    const NodeId a = graph.add("a", make_linear({8}, 8, true), {0});
    const NodeId b = graph.add("b", make_linear({8}, 8, true), {0});
    const NodeId skip = graph.add("skip", make_add({8}), {a, b});
    const NodeId c = graph.add("c", make_linear({8}, 8, true), {0});
    const NodeId sum = graph.add("sum", make_add({8}), {c, skip});
    const NodeId d = graph.add("d", make_linear({8}, 8, true), {sum});
    graph.add("e", make_linear({8}, 8, true), {d});
    // Nobody reads `skip` after `sum`, so `d` may have its memory: unless samples are still to come.
    const ActivationPlan whole = plan_activations(graph.nodes(), test::of_f32(graph), 32);
    EXPECT_EQ(whole.value[d], whole.value[skip]);
    const std::vector<SampleRun> runs = {{a, d, 4}};
    const ActivationPlan parts = plan_activations(graph.nodes(), test::of_f32(graph), 32, runs);
    EXPECT_NE(parts.value[d], parts.value[skip]);
    EXPECT_EQ(parts.value[sum], parts.value[c]);  // in place: each sample has its own
}

struct Turns final : GraphObserver {
    void forward_begins(std::size_t) override { ++calls; }
    void forward_ends(std::size_t) override {}
    void backward_begins(std::size_t) override {}
    void backward_ends(std::size_t) override {}
    void forward_took_turns(std::size_t first, std::size_t last) override { in_turns += last - first + 1; }
    std::size_t calls = 0, in_turns = 0;
};

// A batch beyond the cache of a core, in fp64: each sample's output must be what it is when it is alone, and
// backward must find what it needs.
TEST(SampleRuns, GiveTheOutputsAndGradientsOfSamplesThatAreComputedAlone) {
    constexpr std::int64_t batch = 80;
    const auto device = make_cpu_device(1);
    Graph together(build_vit({16, 16, 1}, small_vit(), 5), *device, DType::f64, batch);
    Graph alone(build_vit({16, 16, 1}, small_vit(), 5), *device, DType::f64, 1);
    together.initialize(4);
    alone.initialize(4);
    Turns turns;
    together.observe(&turns);
    std::vector<std::int64_t> positions;
    for (std::int64_t n = 0; n < batch; ++n) positions.push_back(7 * n);
    StepContext step;
    step.positions = positions;
    test::fill_random(together.input(batch), 1);
    const TensorView outputs = together.forward(batch, step);
    EXPECT_GT(turns.in_turns, 0U);
    EXPECT_GT(turns.calls, together.report().size());
    test::fill_random(together.output_gradient(batch), 2);

    std::vector<double> sums(static_cast<std::size_t>(alone.gradient_arena().count()));
    const auto pixels = static_cast<std::size_t>(together.input(1).count());
    constexpr std::size_t classes = 5;
    for (std::size_t n = 0; n < batch; ++n) {
        StepContext one = step;
        one.positions = step.positions.subspan(n, 1);
        std::copy_n(together.input(batch).span<double>().begin() + static_cast<std::ptrdiff_t>(n * pixels),
                    pixels, alone.input(1).span<double>().begin());
        const TensorView output = alone.forward(1, one);
        for (std::size_t k = 0; k < classes; ++k) {
            EXPECT_NEAR(output.span<double>()[k], outputs.span<double>()[n * classes + k], 1e-12);
            alone.output_gradient(1).span<double>()[k] =
                together.output_gradient(batch).span<double>()[n * classes + k];
        }
        alone.backward(1, one, {});
        const auto gradients = alone.gradient_arena().span<double>();
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradients[i];
    }
    together.backward(batch, step, {});
    const auto gradients = together.gradient_arena().span<double>();
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(gradients[i], sums[i], 1e-10) << i;
}

}  // namespace
}  // namespace tutti
