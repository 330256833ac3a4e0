#include "inspect_config.hpp"

#include <fmt/format.h>

#include "select.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/optimizer.hpp"

namespace tutti {

void inspect_config(const std::string& path, const std::vector<std::string>& overrides, std::int64_t world) {
    const Config config = load_config(path, overrides);
    if (config.data.train.empty())
        throw UsageError(path + ": data.train is not set",
                         "the model's shapes come from the data: data.train=FILE.h5");
    if (world < 1) throw UsageError("--world is " + std::to_string(world), "it must be at least 1");
    const auto dataset = open_datasets(config.data.train);
    const auto device = select_device(config.device, 1);
    const DType compute = config.train.precision == Precision::fp64 ? DType::f64 : DType::f32;
    const std::int64_t batch = config.train.batch_size;
    const Graph graph(build_model(config.model, {dataset->info().sample_shape, dataset->info().classes}),
                      *device, compute, batch);
    const auto optimizer = make_optimizer(config.optim, graph, *device);

    fmt::print("{}: {} on {} samples {}, batch {} x {} ranks\n", path,
               config.model.layers.empty() ? config.model.name : "layers", dataset->info().samples,
               to_string(dataset->info().sample_shape), batch, world);
    fmt::print("  {:<12} {:<14} {:<18} {:>12} {:>14}\n", "layer", "kind", "output", "parameters",
               "MFLOP/sample");
    std::int64_t parameters = 0;
    double flops = 0;
    for (const Graph::LayerReport& row : graph.report()) {
        fmt::print("  {:<12} {:<14} {:<18} {:>12} {:>14.3f}\n", row.name, row.kind, to_string(row.output),
                   row.parameters, row.forward_flops * 1e-6);
        parameters += row.parameters;
        flops += row.forward_flops;
    }
    fmt::print("  {:<46} {:>12} {:>14.3f}\n", "total", parameters, flops * 1e-6);

    const GraphMemory memory = graph.memory();
    std::size_t state = 0;
    for (const Optimizer::State& one : optimizer->state()) state += one.arena.bytes();
    fmt::print(
        "memory per rank\n  parameters   {:>10}\n  gradients    {:>10}\n  optimizer    {:>10}\n  activations "
        " {:>10}\n",
        format_bytes(memory.parameters), format_bytes(memory.gradients), format_bytes(state),
        format_bytes(memory.activations));
    if (config.train.accumulate > 1) fmt::print("  accumulated  {:>10}\n", format_bytes(memory.gradients));
    if (config.train.ema) fmt::print("  average      {:>10}\n", format_bytes(memory.parameters));

    const std::vector<Bucket> buckets = plan_buckets(graph, config.distributed);
    fmt::print("buckets (in the order of backward)\n");
    for (std::size_t b = 0; b < buckets.size(); ++b)
        fmt::print("  {:>3}  {:>10}  {} .. {}\n", b,
                   format_bytes(static_cast<std::uint64_t>(buckets[b].count) * size_of(compute)),
                   graph.parameters()[buckets[b].first].name, graph.parameters()[buckets[b].last].name);
}

}  // namespace tutti
