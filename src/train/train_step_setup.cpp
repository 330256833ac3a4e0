// What stands before the first update: the parts, the initial weights, the epoch's windows.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "new_weights.hpp"
#include "pretrained_encoder.hpp"
#include "train_step.hpp"
#include "tutti/comm/all_reduce_path.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/class_weights.hpp"
#include "tutti/train/memory_statement.hpp"
#include "tutti/train/normalisation.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/other_model.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/run_directory.hpp"
#include "tutti/train/training_data.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

/// Of a run directory that has one its latest checkpoint.
std::string initial_file(const std::string& path) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) return path;
    return latest_checkpoint(path).value_or(path);
}

std::optional<ShardedArenas> make_shards(const TrainingJob& job, const Graph& graph) {
    if (!shards_optimizer(job.config, job.gradients.size())) return std::nullopt;
    return std::optional<ShardedArenas>(
        std::in_place, graph, job.device, job.gradients,
        plan_shards(plan_buckets(graph, job.config.distributed), graph.gradient_arena().count(),
                    job.gradients.rank(), job.gradients.size()));
}

std::optional<ShardSums> make_shard_sums(const TrainingJob& job, const Graph& graph) {
    if (!job.config.run.deterministic) return std::nullopt;
    return std::optional<ShardSums>(
        std::in_place, graph, job.device,
        ShardLayout{job.config.run.virtual_shards, job.gradients.size(), job.gradients.rank()},
        job.device.threads());
}

Graph make_graph(const TrainingJob& job, std::int64_t largest_micro_batch) {
    const Config& config = job.config;
    const int world = job.gradients.size();
    std::optional<Graph> graph;
    const auto make = [&](int) {
        graph.emplace(
            build_model_for(config.model, model_input(job.train.info(), config.data), job.train.info()),
            job.device, arithmetic_of(config.train.precision), largest_micro_batch, config.train.recompute,
            shards_optimizer(config, world) ? world : 1,
            [&job](std::size_t bytes) { return job.gradients.allocate(bytes); });
    };
    // A virtual shard is one thread's.
    if (config.run.deterministic)
        job.device.run_lanes(1, make);
    else
        make(0);
    return std::move(*graph);
}

}  // namespace

TrainStep::TrainStep(const TrainingJob& given)
    : job(given),
      config(given.config),
      rank(given.gradients.rank()),
      world(given.gradients.size()),
      largest_micro_batch(tutti::largest_micro_batch(given.config, given.gradients.size())),
      micro_batches(micro_batches_per_update(given.config, given.gradients.size())),
      compute(compute_type(given.config.train.precision)),
      graph(make_graph(given, largest_micro_batch)),
      weights_of_classes(
          class_weights(given.config.train.class_weights, given.train, graph.output_shape()[0])),
      loss(make_training_loss(given.device, compute, given.config.train, given.train.info(),
                              weights_of_classes)),
      shards(make_shards(given, graph)),
      shard_sums(make_shard_sums(given, graph)),
      reducer(given.gradients, graph.gradient_arena(), plan_buckets(graph, bucket_config(given.config)),
              shards ? std::optional(shards->plan()) : std::nullopt),
      accumulator(graph, given.device, given.config.train.accumulate > 1 && !shard_sums),
      optimizer(make_optimizer(given.config.optim, graph, given.device,
                               shards ? shards->plan().owned : OwnedRanges{})),
      arena_ops(given.device.ops(graph.gradient_arena().dtype)),
      norm_memory(given.device.allocate(sizeof(double), "gradient norm")),
      loader(given.train, largest_micro_batch, loader_workers(given.config.data),
             static_cast<int>(given.config.data.prefetch), &given.device, given.config.data.on_error),
      stage(given.device, given.train.info(), given.config.data, compute, largest_micro_batch) {
    if (shard_sums) make_lanes();
    if (keeps_buffers(config, graph))
        kept_buffers = job.device.allocate(graph.buffer_arena().bytes(), "buffers");
    if (config.train.ema) average.emplace(*config.train.ema, graph, job.device);
    sampler = {.samples = job.train.info().samples,
               .world_size = world,
               .seed = config.run.seed,
               .epoch = 0,
               .shuffle = config.data.shuffle,
               .drop_last = config.data.drop_last};
    progress.world_size = world;
    // Through shared memory a transfer is computation itself, so there is nothing to hide it behind.
    const bool pays = config.distributed.across_steps == AcrossSteps::yes ||
                      (config.distributed.across_steps == AcrossSteps::automatic &&
                       job.gradients.all_reduce_path() != ways::shared_memory);
    across_ = pays && obstacle_across_steps(job).empty();
    reducer.issue_at_end(updates_in_reduction);
    graph.set_before_use(
        [this](std::size_t first, std::size_t last) { catch_up(first, last, account.forward); });
    // The library moves data only inside its calls: between layers, and within large ones.
    if (world > 1) {
        graph.set_progress([this] { reducer.poll(); });
        job.device.set_progress([this] { reducer.poll(); });
    }
}

void TrainStep::make_lanes() {
    const int count = shard_lanes(micro_batches, job.device.threads());
    lanes.resize(static_cast<std::size_t>(count));
    lanes[0] = std::make_unique<ShardLane>(job.device, graph, *loss, stage, arena_ops);
    job.device.run_lanes(count, [&](int number) {
        if (number == 0) return;
        lanes[static_cast<std::size_t>(number)] =
            std::make_unique<ShardLane>(job.device, graph, config, job.train.info(), weights_of_classes);
    });
    // Those that are there: the system may have given fewer threads (OMP_THREAD_LIMIT).
    std::erase(lanes, nullptr);
}

TrainStep::~TrainStep() {
    if (world > 1) job.device.set_progress({});
    if (std::uncaught_exceptions() == 0) return;
    // Before any memory of the device is given back, for which CUDA would wait: what waits for a lost peer
    // ends with a transfer that an error leaves.
    try {
        const Work under_way = job.gradients.follow_recorded();
    } catch (const Error&) {
        // It had ended.
    }
}

void TrainStep::load_initial(std::vector<NamedTensor> tensors, const std::vector<std::string>& parts,
                             const std::string& file) {
    refuse_common_prefix(tensors, graph, file);
    if (!parts.empty()) {
        const std::vector<NamedTensor> own = graph.save();
        std::string list;
        for (const std::string& part : parts)
            if (std::ranges::any_of(own, [&](const auto& one) { return names_tensor(part, one.name); }))
                list += (list.empty() ? "" : ", ") + part;
        tensors = with_new_weights(std::move(tensors), own, parts);
        if (!list.empty())
            initial_note += (initial_note.empty() ? "model.init_from: all but " : "; all but ") + list;
    }
    require_finite(tensors, file);
    try {
        graph.load(tensors, file);
    } catch (const DataError& error) {
        constexpr std::size_t most_parts = 4;  // more of them are another network
        std::vector<std::string> anew = parts_that_do_not_fit(tensors, graph.save());
        anew.insert(anew.begin(), parts.begin(), parts.end());
        throw DataError(
            other_model(file, config) + error.what(),
            anew.size() > most_parts
                ? "or set model.* as those weights have it (trainer inspect shows their shapes)"
                : fmt::format("or name what is to begin anew or be left out in model.init_except, here [{}]",
                              fmt::join(anew, ", ")));
    }
}

void TrainStep::doubt_other_data(const std::string& file, bool keeps_head) {
    const TrainedOn trained_on = read_trained_on(file);
    const DatasetInfo& info = job.train.info();
    if (const auto trained = normalisation_from(trained_on.normalisation, file)) {
        const std::string doubt = doubt_about_normalisation(config.data, *trained, info);
        if (!doubt.empty())
            initial_doubts.push_back(job.train.name() + ", with the weights of model.init_from: " + doubt);
    }
    if (const auto trained = training_data_from_json(trained_on.data, file)) {
        std::string doubt = doubt_about_names(*trained, info, job.train.name(), keeps_head);
        if (!doubt.empty()) initial_doubts.push_back(std::move(doubt));
    }
}

void TrainStep::initial_weights() {
    graph.initialize(config.run.seed);
    if (!job.resumes && !config.model.init_from.empty()) {
        together_on_first_rank(job.control, "reading the initial weights", [&] {
            const std::string file = initial_file(config.model.init_from);
            std::vector<NamedTensor> tensors = read_weights(file);
            std::vector<std::string> anew = config.model.init_except;
            if (config.model.name == "videomae" && is_masked_autoencoder(tensors)) {
                tensors = classifier_weights(std::move(tensors), graph.save());
                initial_note =
                    "model.init_from: the encoder of a masked autoencoder; fc_norm and head begin anew";
                anew.insert(anew.end(), {"fc_norm", "head"});
            }
            std::vector<std::string> parts = config.model.init_except;
            if (config.model.name == "locator" && is_residual_network(tensors)) {
                parts = locator_parts(std::move(parts), tensors);
                tensors = locator_weights(std::move(tensors), graph.save());
                initial_note = "model.init_from: a residual network, all but fc; decoder and head begin anew";
                anew = parts;
                anew.insert(anew.end(), {"decoder", "head"});
            }
            if (auto doubt = doubt_about_frozen(anew, graph.frozen_parameters(), config.model);
                !doubt.empty())
                initial_doubts.push_back(std::move(doubt));
            const std::string head = anew.empty() ? "" : graph.save().back().name;
            doubt_other_data(file, std::ranges::none_of(anew, [&](const std::string& part) {
                                 return names_tensor(part, head);
                             }));
            load_initial(std::move(tensors), parts, file);
        });
        job.gradients.broadcast(graph.all_parameters(), 0).wait();
        graph.all_parameters_changed();
        job.gradients.broadcast(graph.buffer_arena(), 0).wait();
    }
    if (average) average->restart();
}

std::int64_t TrainStep::global_batch() const {
    return samples_per_update(config, world);
}

std::int64_t TrainStep::epoch_limit() const {
    const std::int64_t listed = samples_per_rank(sampler) * world;
    return config.data.tail == Tail::pad ? listed : std::min(listed, sampler.samples);
}

std::int64_t TrainStep::dropped(std::int64_t left) const {
    // Virtual shards are of whole updates, whatever the ranks' batches are.
    if (whole_updates || (config.data.drop_last && config.run.deterministic)) return left % global_batch();
    return config.data.drop_last ? left % (config.train.batch_size * world) : 0;
}

std::int64_t TrainStep::steps_from(std::int64_t position) const {
    const std::int64_t left = std::max<std::int64_t>(epoch_limit() - position, 0);
    return (left - dropped(left) + global_batch() - 1) / global_batch();
}

void TrainStep::start_epoch() {
    sampler.epoch = progress.epoch;
    const std::int64_t left = std::max<std::int64_t>(epoch_limit() - progress.position, 0);
    const std::int64_t limit = progress.position + left - dropped(left);
    if (shard_sums)
        windows = shard_windows(shard_sums->layout(), progress.position, limit, global_batch());
    else
        windows = epoch_windows({.cursor = progress.position,
                                 .limit = limit,
                                 .batch_size = config.train.batch_size,
                                 .world_size = world,
                                 .rank = rank});
    next_window = 0;
    stage.start(loader, epoch_order(sampler), windows, progress.epoch);
}

}  // namespace tutti
