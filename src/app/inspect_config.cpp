#include "inspect_config.hpp"

#include <fmt/format.h>

#include "select.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/memory_statement.hpp"
#include "tutti/train/optimizer.hpp"
#include "tutti/train/precision.hpp"

namespace tutti {
namespace {

// MPI's own buffers and those of its shared-memory transport: measured with Open MPI 4.1 on up to four ranks
// by tests/bench/memory.py.
constexpr std::size_t mpi_bytes = std::size_t{14} << 20;

void print_memory(const Config& config, Graph& graph, Device& device, const Optimizer& optimizer,
                  const DatasetInfo& train, std::int64_t world) {
    std::unique_ptr<Dataset> val;
    if (!config.data.val.empty()) val = open_datasets(config.data.val);
    std::vector<MemoryItem> items =
        state_memory(config, graph, optimizer, train, val ? &val->info() : nullptr, static_cast<int>(world));
    std::size_t present = 0;  // in this process; the others are a training rank's
    for (const MemoryItem& item : items)
        if (item.arena) present += item.bytes;
    items.push_back({"libraries", measured_library_bytes(graph, device, present),
                     "program, kernels, workspaces: measured on one step of zeros"});
    items.push_back({"MPI", mpi_bytes, "its buffers, about"});
    fmt::print("memory per rank\n");
    for (const MemoryItem& item : items)
        fmt::print("  {:<14} {:>10}  {}\n", item.name, format_bytes(item.bytes), item.note);
    const std::size_t total = total_bytes(items);
    fmt::print("  {:<14} {:>10}  expected peak of the resident set, {} bytes\n", "total", format_bytes(total),
               total);
}

}  // namespace

void inspect_config(const std::string& path, const std::vector<std::string>& overrides, std::int64_t world) {
    const Config config = load_config(path, overrides);
    if (config.data.train.empty())
        throw UsageError(path + ": data.train is not set",
                         "the model's shapes come from the data: data.train=FILE.h5");
    if (world < 1) throw UsageError("--world is " + std::to_string(world), "it must be at least 1");
    const auto dataset = open_datasets(config.data.train);
    const auto device = select_device(config, 1);
    const DType compute = compute_type(config.train.precision);
    const std::int64_t batch = config.train.batch_size;
    Graph graph(build_model(config.model, {dataset->info().sample_shape, dataset->info().classes}), *device,
                arithmetic_of(config.train.precision), batch, config.train.recompute);
    const auto optimizer = make_optimizer(config.optim, graph, *device);

    fmt::print("{}: {} on {} samples {}, batch {} x {} ranks{}\n", path,
               config.model.layers.empty() ? config.model.name : "layers", dataset->info().samples,
               to_string(dataset->info().sample_shape), batch, world, products_note(config.train.precision));
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

    print_memory(config, graph, *device, *optimizer, dataset->info(), world);

    const std::vector<Bucket> buckets = plan_buckets(graph, config.distributed);
    fmt::print("buckets (in the order of backward)\n");
    for (std::size_t b = 0; b < buckets.size(); ++b)
        fmt::print("  {:>3}  {:>10}  {} .. {}\n", b,
                   format_bytes(static_cast<std::uint64_t>(buckets[b].count) * size_of(compute)),
                   graph.parameters()[buckets[b].first].name, graph.parameters()[buckets[b].last].name);
}

}  // namespace tutti
