#include "inspect_config.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "device_choice.hpp"
#include "expected_reads.hpp"
#include "files_in_memory.hpp"
#include "reading_memory.hpp"
#include "select.hpp"
#include "synthetic_data.hpp"
#include "transformed_data.hpp"
#include "tutti/base/bucket_policy.hpp"
#include "tutti/base/device_choice.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/memory_use.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/units.hpp"
#include "tutti/comm/launch.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/memory_statement.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/optimizer.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/shard_plan.hpp"
#include "tutti/train/training_checks.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

// MPI's own buffers and those of its shared-memory transport: measured with Open MPI 4.1 on up to four ranks
// by tests/bench/memory.py.
constexpr std::size_t mpi_bytes = std::size_t{14} << 20;

/// Stated is what a host with this one's memory and all ranks on it maps, not what is left of it now.
FileMemory stated_memory(std::int64_t world) {
    const std::int64_t host = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    return {file_memory_of_rank(host, world, resident_set_is_watched()).map,
            std::numeric_limits<std::uint64_t>::max()};
}

/// A signal ends it, also where nobody writes to a pipe; later it ends the process.
Config load_interruptibly(const std::string& path, const std::vector<std::string>& overrides) {
    const StopSignal signals;
    return load_config(path, overrides);
}

/// What each of `world` ranks has that share this process's cores. Threads have workspaces of their own.
int threads_per_rank(std::int64_t world) {
    const std::vector<int> cores = bound_cores();
    // More ranks than cores have one thread each, like as many.
    const auto ranks = std::min(static_cast<std::size_t>(world), std::max<std::size_t>(cores.size(), 1));
    return threads_for_rank(std::vector(ranks, cores), 0);
}

/// Whether ranks on this host, started by mpirun, add up gradients in memory that they have in common.
bool has_common_memory(const Config& config, const Device& device) {
    const Backend backend = config.distributed.backend;
    return device.kind() == "cpu" && (backend == Backend::automatic || backend == Backend::mpi);
}

std::string name_of_choice(const Config& config, int ranks) {
    return shards_optimizer(config, ranks) ? "zero1, as ranks on one host have memory in common" : "ddp";
}

/// What the file holds becomes what the model sees.
void print_transforms(const std::vector<TransformSpec>& transforms, const Shape& stored, const Shape& seen) {
    if (transforms.empty()) return;
    fmt::print("transforms of {}\n", to_string(stored));
    for (const TransformSpec& spec : transforms) fmt::print("  {}\n", to_text(spec));
    fmt::print("  give {}\n", to_string(seen));
}

struct TrainingData {
    std::unique_ptr<Dataset> dataset;
    Shape stored;               ///< of a sample, before the transforms
    std::size_t own_bytes = 0;  ///< of samples that no run would hold
};

/// What --synthetic makes, or the files that the config names. Warns where neither is said.
TrainingData open_training_data(const Config& config, RecipeArguments recipe, const Shape& sample_shape,
                                std::int64_t world) {
    const bool nothing_named = !recipe.own_data && config.data.train.empty();
    recipe.own_data = recipe.own_data || nothing_named;
    const std::int64_t before = resident_bytes();
    const auto make = synthetic_data(recipe, config, sample_shape, static_cast<int>(world), 1);
    TrainingData data;
    auto stored =
        make ? make() : open_datasets(config.data.train, stated_memory(world), labels_needed(config));
    data.stored = stored->info().sample_shape;
    if (make) data.own_bytes = static_cast<std::size_t>(std::max<std::int64_t>(resident_bytes() - before, 0));
    if (nothing_named)
        fmt::print(stderr,
                   "warning: data.train is not set: taken are samples of shape {}; data.train=FILE.h5 or "
                   "--synthetic --shape say another\n",
                   to_string(data.stored));
    data.dataset = transformed(std::move(stored), config, TransformUse::training);
    if (!make) data.dataset->expect_reads(training_reads(config, data.dataset->info().samples, world));
    return data;
}

/// Null without data.val.
std::unique_ptr<Dataset> open_validation(const Config& config, const Dataset& train, std::int64_t world) {
    if (config.data.val.empty()) return nullptr;
    auto val = transformed(
        open_datasets(config.data.val, stated_memory(world).left_by(train), labels_needed(config)), config,
        TransformUse::evaluation);
    val->expect_reads(validation_reads(config, train.info().samples, val->info().samples, world));
    return val;
}

/// What training refuses beside that can be looked at nevertheless, as a batch for more data than these.
void tell_refusals(const Config& config, const Dataset& train, const Dataset* val, int world) {
    try {
        check_training(config, train, val, world);
    } catch (const Error& error) {
        fmt::print(stderr, "warning: training refuses this: {}\n", error.what());
    }
}

std::string frozen_note(std::int64_t parameters, std::int64_t frozen) {
    if (frozen == 0) return {};
    return frozen == parameters ? "  frozen" : fmt::format("  {} frozen", frozen);
}

void print_layers(const Graph& graph) {
    const std::vector<Graph::LayerReport> layers = graph.report();
    std::size_t width = 12;
    for (const Graph::LayerReport& row : layers) width = std::max(width, row.name.size());
    fmt::print("  {:<{}} {:<16} {:<18} {:>12} {:>14} {:>14}\n", "layer", width, "kind", "output",
               "parameters", "MFLOP forward", "backward");
    std::int64_t parameters = 0, frozen = 0;
    double forward = 0, backward = 0;  // of one sample
    for (const Graph::LayerReport& row : layers) {
        fmt::print("  {:<{}} {:<16} {:<18} {:>12} {:>14.3f} {:>14.3f}{}\n", row.name, width, row.kind,
                   to_string(row.output), row.parameters, row.forward_flops * 1e-6, row.backward_flops * 1e-6,
                   frozen_note(row.parameters, row.frozen));
        parameters += row.parameters;
        frozen += row.frozen;
        forward += row.forward_flops;
        backward += row.backward_flops;
    }
    fmt::print("  {:<{}} {:>12} {:>14.3f} {:>14.3f}  of one sample{}\n", "total", width + 36, parameters,
               forward * 1e-6, backward * 1e-6,
               frozen > 0 ? fmt::format("; {} parameters are frozen", frozen) : "");
}

void print_memory(const Config& config, Graph& graph, Device& device, const Optimizer& optimizer,
                  const TrainingData& data, const Dataset* val, std::int64_t world, int threads) {
    const Dataset& train = *data.dataset;
    std::vector<MemoryItem> items = state_memory(config, graph, optimizer, device, train.info(),
                                                 val ? &val->info() : nullptr, static_cast<int>(world));
    if (const std::size_t bytes = transform_bytes(config, train, val, static_cast<int>(world)); bytes > 0)
        items.push_back({"transforms", bytes, "images before they are cropped, with each thread that reads"});
    if (const std::size_t bytes = bring_in_bytes(config, train, val); bytes > 0)
        items.push_back(
            {"bringing in", bytes,
             "pieces of files that are not mapped as a whole, with each thread that reads, in the "
             "first epoch"});
    const std::uint64_t mapped = train.mapped_bytes() + (val ? val->mapped_bytes() : 0);
    if (mapped > 0)
        items.push_back({"data", static_cast<std::size_t>(mapped),
                         "mapped files: pages of the page cache, once for all ranks of a host; left out "
                         "where memory is short"});
    std::size_t present = data.own_bytes;  // in this process; the others are a training rank's
    for (const MemoryItem& item : items)
        if (item.arena) present += item.bytes;
    std::string measured = "program, kernels, workspaces: measured on one step of zeros";
    if (device.kind() == "cpu") measured += fmt::format(", threads: {}", threads);
    if (device.kind() == "cpu" && world > 1)
        measured += fmt::format(", as if all {} ranks shared this host's cores", world);
    std::size_t libraries = 0;
    const auto measure = [&](int) { libraries = measured_library_bytes(graph, device, present); };
    if (config.run.deterministic)
        device.run_lanes(1, measure);
    else
        measure(0);
    items.push_back({"libraries", libraries, measured});
    if (const std::size_t bytes =
            measured_lane_workspaces(graph, device, config, train.info(), static_cast<int>(world));
        bytes > 0)
        items.push_back({"workspaces", bytes, "of the other threads with shards, likewise"});
    items.push_back({"MPI", mpi_bytes, "its buffers, about"});
    fmt::print("memory per rank\n");
    for (const MemoryItem& item : items)
        fmt::print("  {:<14} {:>10}  {}\n", item.name, format_bytes(item.bytes), item.note);
    const std::size_t total = total_bytes(items);
    fmt::print("  {:<14} {:>10}  expected peak of the resident set, {} bytes\n", "total", format_bytes(total),
               total);
}

void print_buckets(const Config& config, const Graph& graph, const std::vector<Bucket>& buckets, int ranks,
                   bool chosen_by_run) {
    const bool compressed = config.distributed.compress == Compress::bf16 && ranks > 1;
    const std::size_t bytes = size_of(compute_type(config.train.precision));
    fmt::print("buckets (in the order of backward{})\n",
               compressed ? "; on the network half of these bytes, in bf16" : "");
    if (chosen_by_run)
        fmt::print(
            "  of the first steps: distributed.bucket_policy {} then makes others, by what it measures\n",
            to_string(config.distributed.bucket_policy));
    for (std::size_t b = 0; b < buckets.size(); ++b)
        fmt::print("  {:>3}  {:>10}  {} .. {}\n", b,
                   format_bytes(static_cast<std::uint64_t>(buckets[b].count) * bytes),
                   graph.parameters()[buckets[b].first].name, graph.parameters()[buckets[b].last].name);
}

}  // namespace

void inspect_config(const RecipeArguments& recipe, const Shape& sample_shape, std::int64_t world) {
    Config config = load_interruptibly(recipe.config_path, recipe.overrides);
    const int ranks = static_cast<int>(world);
    // What training refuses is no run to be measured.
    check_strategy(config, ranks, true);
    if (!recipe.own_data) check_best(config);
    config.device = choice_of(config);
    const TrainingData data = open_training_data(config, recipe, sample_shape, world);
    const DatasetInfo& info = data.dataset->info();
    const std::unique_ptr<Dataset> val =
        recipe.own_data ? nullptr : open_validation(config, *data.dataset, world);
    const int threads = threads_per_rank(world);
    const auto device = select_device(config, threads);
    // Where device is auto, this host need not be one that the run is for.
    if (config.device == DeviceChoice::cpu) check_backend(config.distributed.backend, false);
    check_zero1(config);
    check_objective(config.train, info, data.dataset->name());
    tell_refusals(config, *data.dataset, val.get(), ranks);
    const std::int64_t batch = largest_micro_batch(config, ranks);
    const bool chooses = config.distributed.strategy == Strategy::automatic && ranks > 1;
    config.distributed.strategy = chosen_strategy(config, ranks, has_common_memory(config, *device));
    const int shards = shards_optimizer(config, ranks) ? ranks : 1;
    std::optional<Graph> made;
    const auto make = [&](int) {
        made.emplace(build_model_for(config.model, model_input(info, config.data), info), *device,
                     arithmetic_of(config.train.precision), batch, config.train.recompute, shards);
    };
    // As training does: a virtual shard is one thread's.
    if (config.run.deterministic)
        device->run_lanes(1, make);
    else
        make(0);
    Graph& graph = *made;
    const std::vector<Bucket> buckets = plan_buckets(graph, bucket_config(config));
    OwnedRanges owned;
    if (shards > 1) owned = plan_shards(buckets, graph.parameter_arena().count(), 0, shards).owned;
    const auto optimizer = make_optimizer(config.optim, graph, *device, owned);

    fmt::print("{}: {} on {} {}, batch {} x {}{}\n", recipe.config_path,
               config.model.layers.empty() ? config.model.name : "layers", counted(info.samples, "sample"),
               to_string(info.sample_shape), config.train.batch_size, counted(world, "rank"),
               products_note(config.train.precision));
    if (config.run.deterministic)
        fmt::print("  run.deterministic: {} of up to {}, {} per rank\n",
                   counted(config.run.virtual_shards, "virtual shard"), counted(batch, "sample"),
                   micro_batches_per_update(config, ranks));
    print_transforms(config.data.transforms, data.stored, info.sample_shape);
    if (chooses) fmt::print("  distributed.strategy auto is {}\n", name_of_choice(config, ranks));
    print_layers(graph);
    print_memory(config, graph, *device, *optimizer, data, val.get(), world, threads);
    const BucketPolicy policy = config.distributed.bucket_policy;
    print_buckets(config, graph, buckets, ranks,
                  world > 1 && (policy == BucketPolicy::cost_model || policy == BucketPolicy::automatic));
}

}  // namespace tutti
