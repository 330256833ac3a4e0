// How a run comes to its buckets where the config leaves them to measurements.

#include <nlohmann/json.hpp>

#include "trainer_impl.hpp"
#include "tutti/base/bucket_policy.hpp"
#include "tutti/base/json_input.hpp"
#include "tutti/train/across_steps.hpp"

namespace tutti {
namespace {

const char* name_of_compress(const Config& config) {
    return config.distributed.compress == Compress::bf16 ? "bf16" : "none";
}

}  // namespace

void Trainer::Impl::use_buckets(const BucketTrial& choice) {
    std::vector<Bucket> buckets = plan_from_ends(parameter_slices(graph), choice.ends);
    // An order of issue has its use across steps only; what was chosen without is for transfers that end with
    // their step.
    if (config.distributed.across_steps == AcrossSteps::automatic && choice.order.empty())
        training.spread_across_steps(false);
    training.replan(std::move(buckets), training.spreads_across_steps()
                                            ? order_for(job.gradients, choice.order)
                                            : std::vector<std::size_t>());
    bucket_plan = nlohmann::ordered_json{{"policy", to_string(config.distributed.bucket_policy)},
                                         {"world", world},
                                         {"schedules", bucket_schedules},
                                         {"compress", name_of_compress(config)},
                                         {"route", route_of(bucket_key)},
                                         {"name", choice.name},
                                         {"ends", choice.ends},
                                         {"order", choice.order}}
                      .dump();
}

void Trainer::Impl::measure_order() {
    if (config.distributed.across_steps == AcrossSteps::yes && !training.spreads_across_steps())
        job.log.warning("distributed.across_steps is true, but transfers end with their step: " +
                        TrainStep::obstacle_across_steps(job));
    // What was chosen by measurement has its order.
    if (tuner || !bucket_plan.empty() || !has_an_order(training)) return;
    if (!recorder) recorder.emplace(graph, static_cast<std::size_t>(training.micro_batches));
    order_measurement.emplace(training, *recorder);
    record_if_needed();
}

void Trainer::Impl::choose_buckets() {
    if (!is_measured(config.distributed.bucket_policy)) return bucket_plan.clear();
    if (world == 1) {
        bucket_plan.clear();
        return job.log.info("buckets: one rank has nothing to send, so there is nothing to choose");
    }
    if (graph.parameters().empty()) {
        bucket_plan.clear();
        return job.log.info("buckets: the model has no parameters, so there is nothing to choose");
    }
    // Of the run, before a choice ends it.
    bucket_schedules = schedules_tried(config, training.spreads_across_steps());
    bucket_key = bucket_profile_key(job.control, job.gradients, graph, config, job.device,
                                    training.spreads_across_steps());
    if (use_buckets_of_checkpoint()) return;
    if (use_kept_profile()) return;
    recorder.emplace(graph, static_cast<std::size_t>(training.micro_batches));
    tuner.emplace(training, *recorder);
    record_if_needed();
}

bool Trainer::Impl::use_buckets_of_checkpoint() {
    if (bucket_plan.empty()) return false;
    const auto plan = json_or_discarded<nlohmann::json>(std::exchange(bucket_plan, {}));
    try {
        if (plan.at("policy") != to_string(config.distributed.bucket_policy) || plan.at("world") != world)
            return false;
        // Neither were transfers of other sizes. Older versions knew no compression.
        if (plan.value("compress", "none") != name_of_compress(config)) return false;
        // What was best of other schedules was not measured under these. A version that did not write them
        // down may have known no other than within steps, so across steps its choice is measured again.
        if (plan.value("schedules", schedules_tried(config, false)) != bucket_schedules) return false;
        // What was best on one way was not measured on another. Older versions did not write theirs down.
        if (plan.value("route", "") != route_of(bucket_key)) {
            job.log.info("buckets: measured anew, as the checkpoint's were not on this way (" +
                         route_of(bucket_key) + ")");
            return false;
        }
        BucketTrial trial{plan.at("name").get<std::string>(),
                          plan.at("ends").get<std::vector<std::size_t>>()};
        trial.order = plan.value("order", trial.order);
        check_issue_order(trial.order, trial.ends.size());
        use_buckets(trial);
    } catch (const std::exception& error) {
        job.log.warning("the checkpoint's buckets are not used: " + json_problem(error.what()));
        return false;
    }
    job.log.info("buckets: " + plan.at("name").get<std::string>() + ", " +
                 describe_buckets(training.reducer.buckets(), size_of(graph.compute())) +
                 ", as when the checkpoint was saved");
    return true;
}

bool Trainer::Impl::use_kept_profile() {
    const std::string path = bucket_profile_path(bucket_key);
    std::string text;
    if (rank == 0) {
        try {
            if (const auto kept = read_bucket_profile(path, bucket_key, graph.parameters().size()))
                text = to_json(*kept);
        } catch (const DataError& error) {
            job.log.warning(std::string("bucket profile ignored: ") + error.what());
        }
    }
    text = broadcast_text(job.control, text, 0);
    if (text.empty()) return false;
    const BucketProfile profile = bucket_profile_from_json(text, bucket_key, graph.parameters().size());
    use_buckets(profile.chosen);
    job.log.info(describe_choice(profile, training.reducer.buckets(), size_of(graph.compute())) +
                 "; measured by an earlier run (" + path + ")");
    return true;
}

void Trainer::Impl::tune_buckets(const UpdateReport& update) {
    const bool chosen = tuner->after_update(update);
    watch.lap(account.communication);
    if (!chosen) return;
    BucketProfile profile = tuner->result();
    profile.key = bucket_key;
    use_buckets(profile.chosen);
    std::string kept;
    if (!tuner->represents_runs()) {
        kept = "; not kept for later runs: here evaluations or checkpoints wait for every step's transfers";
    } else if (rank == 0) {
        const std::string path = bucket_profile_path(bucket_key);
        try {
            write_bucket_profile(path, profile);
            kept = "; kept for later runs in " + path;
        } catch (const RunError& error) {
            job.log.warning(std::string("the bucket profile is not kept: ") + error.what());
        }
    }
    job.log.info(describe_choice(profile, training.reducer.buckets(), size_of(graph.compute())) + kept);
    tuner.reset();
    record_if_needed();
}

}  // namespace tutti
