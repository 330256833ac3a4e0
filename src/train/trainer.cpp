#include "tutti/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer_impl.hpp"
#include "tutti/base/units.hpp"
#include "tutti/input/data_fingerprint.hpp"
#include "tutti/train/class_weights.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {

Trainer::Impl::Impl(const TrainingJob& given)
    : job(given),
      config(given.config),
      recorded(given.given ? *given.given : given.config),
      training(given),
      report(given.log) {
    if (config.run.walltime && rank == 0) wall_time.emplace(*config.run.walltime);
    if (rank == 0) try {
            data_sign = data_fingerprint(job.train, job.labels);
        } catch (const DataError&) {
            // A label that no class has: data.on_error decides when its sample comes.
        }
    if (!job.val) return;
    val_data = as_trained(config.data, normalisation_of(config.data, job.train.info()), job.val->info());
    val_loader.emplace(*job.val, training.largest_micro_batch, loader_workers(config.data),
                       static_cast<int>(config.data.prefetch), &job.device, config.data.on_error);
    const auto make_lane = [&](Device& device) {
        return std::make_unique<ValLane>(
            make_evaluation_loss(device, training.compute, config.train, job.val->info()),
            BatchStage(device, job.val->info(), val_data, training.compute, training.largest_micro_batch));
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
    const auto count_of = [](const std::vector<Parameter>& all) {
        std::int64_t count = 0;
        for (const Parameter& parameter : all) count += parameter.count;
        return count;
    };
    const std::int64_t frozen = count_of(impl_->graph.frozen_parameters());
    const std::int64_t parameters = count_of(impl_->graph.parameters()) + frozen;
    const GraphMemory memory = impl_->graph.memory();
    job.log.info(
        "model: " + (job.config.model.layers.empty() ? job.config.model.name : std::string("layers")) + ", " +
        counted(parameters, "parameter") +
        (frozen > 0 ? " (" + std::to_string(frozen) + " of them frozen), " : ", ") +
        counted(impl_->training.reducer.buckets().size(), "bucket") + ", " +
        format_bytes(memory.parameters + memory.rounded + memory.gradients + memory.activations) +
        " of arenas" + products_note(job.config.train.precision));
    if (frozen > 0 && job.config.model.init_from.empty() && !job.resumes)
        job.log.warning("without model.init_from what is frozen keeps the random values that it begins with");
    for (const std::string& doubt : impl_->training.initial_doubts) job.log.warning(doubt);
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
        const std::string part = "1/" + std::to_string(impl_->training.world);
        job.log.info(state == 0 ? "zero1: each rank updates " + part + " of the weights"
                                : "zero1: each rank keeps " + part + " of the optimizer's state, " +
                                      format_bytes(state));
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

const Config& Trainer::recorded_config() const {
    return impl_->recorded;
}

bool Trainer::has_nothing_left() const {
    return impl_->has_nothing_left();
}

TrainingResult Trainer::run() {
    // Once it is out of here, its way may lead through transfers that wait for a lost peer (~TrainStep).
    TrainingResult result;
    tell_errors(impl_->job.gradients,
                [&] { name_place_of_lost_peers(impl_->place, [&] { result = impl_->run(); }); });
    return result;
}

}  // namespace tutti
