#include "tutti/train/trainer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "trainer_impl.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/units.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/class_weights.hpp"
#include "tutti/train/evaluation.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

void check_batch(const Config& config, const Dataset& data, int world) {
    const std::int64_t accumulate = config.train.accumulate;
    const std::int64_t samples = data.info().samples;
    // In floating point: the product of what people type may not fit an integer.
    const double shares = static_cast<double>(world) * static_cast<double>(accumulate);
    const double global = static_cast<double>(config.train.batch_size) * shares;
    if (global <= static_cast<double>(samples)) return;
    throw UsageError(
        "train.batch_size " + std::to_string(config.train.batch_size) + " × " + std::to_string(world) +
            (world == 1 ? " rank" : " ranks") +
            (accumulate > 1 ? " × train.accumulate " + std::to_string(accumulate) : "") + " = " +
            fmt::format("{:.0f}", global) + " is larger than the data (" + data.name() + ": " +
            std::to_string(samples) + (samples == 1 ? " sample)" : " samples)"),
        "set train.batch_size to at most " +
            fmt::format("{:.0f}", std::max(std::floor(static_cast<double>(samples) / shares), 1.0)) +
            (static_cast<double>(samples) < shares && accumulate > 1 ? ", train.accumulate to 1" : "") +
            (samples < world
                 ? " and use at most " + std::to_string(samples) + (samples == 1 ? " rank" : " ranks")
                 : ""));
}

/// paths: the files that `data` are of.
void check_samples(const Dataset& data, const std::vector<std::string>& paths) {
    if (data.info().samples == 0)
        throw DataError(
            data.name() + ": there are no samples",
            "see what it holds: trainer inspect " + (paths.size() == 1 ? shell_word(paths.front()) : "FILE"));
}

const char* remedy_for_other_samples(const Shape& train, const Shape& val) {
    if (train.rank() != 2) return "pack both from the same source";
    if (val.rank() != 2) return "pack both with --sequences";
    return train[1] == val[1] ? "pack both with the same --length" : "pack both with the same --features";
}

/// A metric of segments is to decide of data that have none.
void check_segments(const TrainConfig& config, const Dataset& val) {
    const bool best = config.checkpoint.best == "val/atiou";
    if (!best && (!config.early_stopping || config.early_stopping->metric != "val/atiou")) return;
    if (std::ranges::any_of(val.targets(), [](float offset) { return offset >= 0; })) return;
    throw DataError(fmt::format("{} is val/atiou, but no sample of data.val {} has a segment",
                                best ? "train.checkpoint.best" : "train.early_stopping.metric", val.name()),
                    "give validation data with segments, or val/loss");
}

/// Kilometres are to decide, but nobody knows them.
void check_kilometres(const Config& config) {
    if (config.data.has_geography()) return;
    const auto& early = config.train.early_stopping;
    const bool best = config.train.checkpoint.best == "val/km";
    if (!best && (!early || early->metric != "val/km")) return;
    throw UsageError(fmt::format("{} is val/km, but data.latitudes and data.longitudes are not set",
                                 best ? "train.checkpoint.best" : "train.early_stopping.metric"),
                     "name the files that say where on the earth pixels are, or give val/distance");
}

void check_same_samples(const Config& config, const Dataset& train, const Dataset& val) {
    if (!(train.info().sample_shape == val.info().sample_shape))
        throw DataError("data.val " + val.name() + " has samples of shape " +
                            to_string(val.info().sample_shape) + ", data.train " + train.name() + " of " +
                            to_string(train.info().sample_shape),
                        remedy_for_other_samples(train.info().sample_shape, val.info().sample_shape));
    // Neither labels nor targets are read.
    if (config.train.loss == LossChoice::reconstruction) return;
    if (val.info().targets != train.info().targets || val.info().target_kind != train.info().target_kind)
        throw DataError(fmt::format("data.val {} has {}, data.train {} {}", val.name(),
                                    describe_wanted(val.info()), train.name(), describe_wanted(train.info())),
                        "pack both in the same way");
    const auto &names = train.info().target_names, &val_names = val.info().target_names;
    if (!names.empty() && !val_names.empty() && names != val_names)
        throw DataError(fmt::format("data.val {} has the targets {}, data.train {} {}", val.name(),
                                    fmt::join(val_names, ", "), train.name(), fmt::join(names, ", ")),
                        "pack both with the same targets in the same order");
    if (val.info().classes > train.info().classes)
        throw DataError("data.val " + val.name() + " has " + std::to_string(val.info().classes) +
                            " classes, data.train " + train.name() + " only " +
                            std::to_string(train.info().classes),
                        "pack both with the same class names");
    if (const std::string other = other_class_name(train.info().class_names, val.info().class_names,
                                                   "in data.train " + train.name());
        !other.empty())
        throw DataError("data.val " + val.name() + ": " + other,
                        "pack both with the same classes in the same order");
}

}  // namespace

void check_training(const Config& config, const Dataset& train, const Dataset* val, int world_size) {
    check_deterministic(config, world_size);
    check_zero1(config);
    check_samples(train, config.data.train);
    if (val) check_samples(*val, config.data.val);
    check_batch(config, train, world_size);
    if (val) check_same_samples(config, train, *val);
    check_objective(config.train, train.info(), train.name());
    check_kilometres(config);
    check_geography(config.data, loss_of_run(config.train, train.info()), train.info().targets);
    if (val && objective_of(config.train, train.info()) == Objective::segments)
        check_segments(config.train, *val);
    const GraphSpec model = build_model(config.model, model_input(train.info(), config.data));
    if (objective_of(config.train, train.info()) != Objective::classes) return;
    const std::int64_t outputs = model.nodes().back().shape[0];
    check_metrics(config.train, outputs);
    check_class_weights(config.train.class_weights, outputs);
}

Trainer::Impl::Impl(const TrainingJob& given)
    : job(given), config(given.config), training(given), report(given.log) {
    if (config.run.walltime && rank == 0) wall_time.emplace(*config.run.walltime);
    if (!job.val) return;
    val_loader.emplace(*job.val, training.largest_micro_batch, loader_workers(config.data),
                       static_cast<int>(config.data.prefetch), &job.device, config.data.on_error);
    const auto make_lane = [&](Device& device) {
        return std::make_unique<ValLane>(
            make_evaluation_loss(device, training.compute, config.train, job.val->info()),
            BatchStage(device, job.val->info(), config.data, training.compute, training.largest_micro_batch));
    };
    val_lanes.push_back(make_lane(job.device));
    for (std::size_t lane = 1; lane < training.lanes.size(); ++lane)
        val_lanes.push_back(make_lane(training.lanes[lane]->device()));
}

Trainer::Trainer(const TrainingJob& job) {
    tell_errors(job.gradients, [&] {
        // The same config and data give the same error everywhere, but memory can run out on one rank.
        together(job.control, "building the model", [&] { impl_ = std::make_unique<Impl>(job); });
        impl_->training.initial_weights();
    });
}

void Trainer::write_to(RunDirectory* directory) {
    impl_->job.directory = directory;
    const TrainingJob& job = impl_->job;
    std::int64_t parameters = 0;
    for (const Parameter& parameter : impl_->graph.parameters()) parameters += parameter.count;
    const GraphMemory memory = impl_->graph.memory();
    job.log.info(
        "model: " + (job.config.model.layers.empty() ? job.config.model.name : std::string("layers")) + ", " +
        std::to_string(parameters) + " parameters, " +
        std::to_string(impl_->training.reducer.buckets().size()) +
        (impl_->training.reducer.buckets().size() == 1 ? " bucket, " : " buckets, ") +
        format_bytes(memory.parameters + memory.rounded + memory.gradients + memory.activations) +
        " of arenas" + products_note(job.config.train.precision));
    if (!impl_->training.weights_of_classes.empty())
        job.log.info(describe_class_weights(impl_->training.weights_of_classes));
    if (job.config.run.deterministic)
        job.log.info("run.deterministic: " + std::to_string(job.config.run.virtual_shards) +
                     " virtual shards of up to " + std::to_string(impl_->training.largest_micro_batch) +
                     " samples, " + std::to_string(impl_->training.micro_batches) + " per rank, each on " +
                     (job.device.kind() == "cpu" ? "one thread" : "the GPU") +
                     (impl_->training.lanes.size() > 1
                          ? ", " + std::to_string(impl_->training.lanes.size()) + " at once"
                          : ", one after another"));
    if (impl_->training.shards) {
        std::size_t state = 0;
        for (const Optimizer::State& one : impl_->training.optimizer->state()) state += one.arena.bytes();
        job.log.info("zero1: each rank keeps 1/" + std::to_string(impl_->training.world) +
                     " of the optimizer's state, " + format_bytes(state));
    }
    if (!impl_->resumed_from.empty())
        impl_->go_on_in_directory();
    else if (!impl_->training.initial_note.empty())
        job.log.info(impl_->training.initial_note);
}

Trainer::~Trainer() = default;

void Trainer::resume(const std::string& checkpoint_path) {
    tell_errors(impl_->job.gradients, [&] { impl_->restore(checkpoint_path); });
}

TrainingResult Trainer::run() {
    // Once it is out of here, its way may lead through transfers that wait for a lost peer (~TrainStep).
    TrainingResult result;
    tell_errors(impl_->job.gradients,
                [&] { name_place_of_lost_peers(impl_->place, [&] { result = impl_->run(); }); });
    return result;
}

}  // namespace tutti
