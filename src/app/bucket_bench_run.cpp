#include "bucket_bench_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "memory_check.hpp"
#include "provenance.hpp"
#include "synthetic_data.hpp"
#include "transfer_costs.hpp"
#include "tutti/comm/stop_vote.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/processor_cost.hpp"
#include "tutti/train/schedule_choice.hpp"
#include "tutti/train/step_bench.hpp"
#include "tutti/train/step_replay.hpp"

namespace tutti {
namespace {

/// One measurement of all ranks.
class BucketBenchRun {
  public:
    BucketBenchRun(const JobStart& start, const BucketBenchOptions& options)
        : start_(start),
          options_(options),
          config_(config_for_bench(start, options)),
          timed_(start.timed_world(config_.distributed)),
          inputs_(open_bench_data(start.over(*timed_), config_,
                                  synthetic_data(options.recipe, config_, options.sample_shape,
                                                 start.world.size(), most_updates(options)))),
          gradients_(make_gradients_communicator(start, config_.distributed, inputs_.gpu, *timed_)),
          control_(timed_->duplicate()),
          bench_({config_, *inputs_.device, *gradients_, *control_, start.log, nullptr, *inputs_.train,
                  nullptr}) {}

    BucketReport run() {
        // Of the steps, and of what is between them.
        tell_errors(*gradients_, [this] { measure(); });
        return std::move(report_);
    }

  private:
    void measure() {
        describe();
        report_.across = bench_.spreads_across_steps();
        if (options_.replay) prepare_replay();
        measure_all_reduce();
        report_.measurement = agree_on_measurement(first_steps(), *control_);
        measure_plans();
    }

    /// Under both schedules, with the steps before each turn that are not counted, and those that plan.
    static std::int64_t most_updates(const BucketBenchOptions& options) {
        const std::size_t plans = 2 * (options.plans.policies.size() + options.plans.bucket_mb.size()) + 1;
        return static_cast<std::int64_t>(plans * (2 * options.rounds.steps + options.rounds.warmup + 2) + 8);
    }

    static Config config_for_bench(const JobStart& start, const BucketBenchOptions& options) {
        Config config = read_training_config(start, options.recipe);
        if (shards_optimizer(config, start.world.size()))
            throw AgreedError(ExitCode::usage,
                              "distributed.strategy is zero1, whose buckets are fixed; this bench compares "
                              "those of ddp: set distributed.strategy: ddp");
        if (config.run.deterministic)
            throw AgreedError(ExitCode::usage,
                              "run.deterministic is true, which sums gradients as a whole, after backward; "
                              "this bench compares buckets: set run.deterministic: false");
        // The shorter last step of an epoch would be a step of another kind.
        config.data.drop_last = true;
        keep_first_weights(options.recipe, config);
        return config;
    }

    void describe() {
        const Graph& graph = bench_.graph();
        if (graph.parameters().empty())
            throw AgreedError(ExitCode::usage,
                              "the model has no parameters, so there are no buckets to compare: give layers "
                              "that have some");
        report_.provenance = nlohmann::ordered_json::parse(
            provenance(*inputs_.device, inputs_.places, start_.environment, options_.recipe.overrides));
        report_.model = (config_.model.name.empty() ? "layers" : config_.model.name) +
                        products_note(config_.train.precision);
        report_.precision = name_of(config_.train.precision);
        report_.batch_size = config_.train.batch_size;
        report_.accumulate = config_.train.accumulate;
        report_.all_reduce_path = gradients_->all_reduce_path();
        report_.first_bucket_mb = config_.distributed.first_bucket_mb;
        report_.rounds = options_.rounds;
        report_.layers = graph.report();
        report_.parameters = graph.parameters();
        report_.element_bytes = size_of(graph.compute());
        report_.compressed = config_.distributed.compress == Compress::bf16;
        if (report_.compressed)
            report_.notes.push_back(
                "distributed.compress is bf16: sizes are those of the gradients, of which half as many bytes "
                "are sent; times hold the rounding, too.");
        if (shards_optimizer(config_of_run(config_, *gradients_), gradients_->size()))
            report_.notes.push_back(
                "distributed.strategy is auto, for which training takes zero1 on these ranks, whose "
                "buckets are fixed; these are those of distributed.strategy: ddp.");
    }

    void check_stop(const std::string& phase) { end_if_stopped(*control_, phase); }

    std::uint64_t arena_bytes() const { return bench_.graph().gradient_arena().bytes(); }

    void measure_all_reduce() {
        if (gradients_->size() == 1) return;
        const TensorView arena = bench_.graph().gradient_arena();
        TransferCosts costs = measure_transfers({.gradients = *gradients_,
                                                 .control = *control_,
                                                 .device = *inputs_.device,
                                                 .arena = arena,
                                                 .on_gpu = inputs_.gpu.has_value(),
                                                 .compressed = report_.compressed,
                                                 .computes = !options_.replay,
                                                 .across = report_.across,
                                                 .log = start_.log});
        report_.all_reduce = std::move(costs.rows);
        report_.cost = costs.cost;
        processor_ = costs.processor;
        least_communication_ = costs.least;
        report_.per_piece = piece_cost(*gradients_, costs.empty_transfer);
    }

    /// What rank 0 needs for a step when nobody else computes.
    StepProfile measured_profile() {
        const auto alone = make_single_communicator();
        const auto control = make_single_communicator();
        StepBench bench(
            {config_, *inputs_.device, *alone, *control, start_.log, nullptr, *inputs_.train, nullptr});
        std::vector<StepTimeline> warmup(std::max<std::size_t>(options_.rounds.warmup, 1),
                                         bench.make_timeline());
        std::vector<StepTimeline> steps(options_.rounds.steps, bench.make_timeline());
        bench.run(warmup);
        bench.run(steps);
        return profile_of(steps);
    }

    void prepare_replay() {
        start_.log.progress("the layers, on rank 0 alone");
        std::string profile;
        together_on_first_rank(*control_, "measuring the layers", [&] {
            profile = to_json(options_.replay->empty() ? measured_profile()
                                                       : read_profile(*options_.replay, report_));
        });
        check_stop("measuring the layers");
        const std::string source = options_.replay->empty()
                                       ? "measured in this run on rank 0, the others idle"
                                       : "taken from " + *options_.replay;
        report_.profile = profile_from_json(broadcast_text(*control_, profile, 0));
        replay_.emplace(bench_.graph(), report_.profile, static_cast<std::size_t>(config_.train.accumulate),
                        *gradients_, *control_, bench_.buckets());
        report_.replay = fmt::format("{} (times of the layers: {})", replay_waits, source);
    }

    void run_steps(const BenchPlan& plan, std::span<StepTimeline> steps) {
        spread_across_steps(plan.across);
        if (replay_) {
            replay_->set_buckets(plan.buckets, plan.order);
            replay_->run(steps);
        } else {
            bench_.set_buckets(plan.buckets, plan.order);
            bench_.run(steps);
        }
    }

    void spread_across_steps(bool spread) {
        bench_.spread_across_steps(spread);
        if (replay_) replay_->spread_across_steps(spread);
    }

    /// Within steps, which leaves backward alone.
    BenchPlan one_bucket() const {
        return {{},
                plan_buckets(parameter_slices(bench_.graph()), layer_ends(bench_.graph()),
                             {BucketPolicy::single, report_.element_bytes})};
    }

    /// When are which gradients ready? Good enough to plan with.
    std::vector<StepTimeline> first_steps() {
        constexpr std::size_t cold = 2, counted = 4;
        start_.log.progress("when gradients become ready");
        std::vector<StepTimeline> steps(cold + counted, bench_.make_timeline());
        run_steps(one_bucket(), steps);
        check_stop("measuring when gradients become ready");
        return {steps.begin() + cold, steps.end()};
    }

    AcrossTiming across_timing() const {
        return report_.measurement.across(bench_.graph(), report_.per_piece, report_.cost);
    }

    /// As training does with distributed.across_steps auto: sets the schedule of the rows, and gives the cost
    /// model's plans.
    SchedulePlans choose_schedule(std::span<const ParameterSlice> slices, const std::vector<bool>& ends,
                                  const BucketTiming& timing) {
        SchedulePlans plans;
        if (!report_.across) {
            plans.within = plan_by_cost(slices, ends, timing);
            return plans;
        }
        plans = plan_schedules(slices, ends, timing, across_timing());
        if (config_.distributed.across_steps != AcrossSteps::automatic) return plans;
        const ScheduleForecast forecast = agree_on(plans.forecast, *control_);
        const ScheduleTrials schedules = forecast.worth_trying();
        measures_both_ = tries_both(schedules);
        report_.across = schedules == ScheduleTrials::across || schedules == ScheduleTrials::across_first;
        std::string note = tutti::describe(forecast, schedules, ScheduleForecast::clearly) + ".";
        if (measures_both_)
            note += fmt::format(" Rows {}; those that say \"{}\" are for comparison.",
                                name_of_schedule(report_.across), name_of_schedule(!report_.across));
        note.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(note.front())));
        report_.notes.push_back(note);
        return plans;
    }

    struct Candidates {
        std::vector<BenchPlan> plans;
        std::vector<double> predicted;  // seconds of a step
    };
    /// The plans of a request under one schedule. by_cost: rank 0's counts.
    Candidates candidates(const PlanRequest& request, const BucketTiming& timing, bool across,
                          const std::vector<Bucket>& by_cost) {
        const auto slices = parameter_slices(bench_.graph());
        const AcrossTiming of_steps = across_timing();
        Candidates result{distinct_plans(request, slices, layer_ends(bench_.graph()), report_.element_bytes,
                                         rank_0s(by_cost)),
                          {}};
        for (BenchPlan& plan : result.plans) {
            plan.across = across;
            if (across)
                plan.order = agree_on_numbers(
                    issue_order(plan.buckets, transfer_seconds(plan.buckets, timing), of_steps), *control_);
            result.predicted.push_back(predict(plan, timing, of_steps));
        }
        return result;
    }

    /// Seconds of a step.
    double predict(const BenchPlan& plan, const BucketTiming& timing, const AcrossTiming& of_steps) const {
        if (!plan.across) return report_.measurement.predict(plan.buckets, timing);
        return step_across(plan.buckets, plan.order, transfer_seconds(plan.buckets, timing), of_steps);
    }

    /// What is measured: the rows' schedule, and of the other one the plans that may be as fast.
    std::vector<BenchPlan> all_candidates(const PlanRequest& request, const BucketTiming& timing,
                                          const SchedulePlans& plans) {
        const auto of = [&](bool across) {
            return candidates(request, timing, across, across ? plans.across.buckets : plans.within);
        };
        std::vector<BenchPlan> all = of(report_.across).plans;
        if (measures_both_) {
            const Candidates others = of(!report_.across);
            const std::vector<std::size_t> best =
                agree_on_numbers(best_of_policies(others.plans, others.predicted), *control_);
            for (const std::size_t number : best) {
                all.push_back(others.plans[number]);
                for (PlanName& name : all.back().names) name.schedule = name_of_schedule(!report_.across);
            }
        }
        return all;
    }

    std::vector<Bucket> rank_0s(const std::vector<Bucket>& plan) {
        std::vector<std::size_t> ends;
        for (const Bucket& bucket : plan) ends.push_back(bucket.last);
        return plan_from_ends(parameter_slices(bench_.graph()), agree_on_numbers(std::move(ends), *control_));
    }

    BucketTiming timing() const { return {report_.measurement.ready, report_.cost, report_.element_bytes}; }

    PlanRequest request_with_first_bucket() {
        PlanRequest request = options_.plans;
        request.first_bucket_mb = report_.first_bucket_mb;
        if (std::ranges::any_of(request.bucket_mb, [&](double mb) { return mb < request.first_bucket_mb; }))
            report_.notes.push_back(
                fmt::format("The first bucket of ddp has at most {:g} MiB (distributed.first_bucket_mb), and "
                            "at most the size of the others here: to train with such a size, set both keys.",
                            request.first_bucket_mb));
        return request;
    }

    void measure_plans() {
        const PlanRequest request = request_with_first_bucket();
        const auto slices = parameter_slices(bench_.graph());
        const auto ends = layer_ends(bench_.graph());
        std::vector<BenchPlan> plans =
            all_candidates(request, timing(), choose_schedule(slices, ends, timing()));
        // A few first steps are often slower than the others: what predictions are made from is measured in
        // the rounds, too.
        const std::size_t shown = plans.size();
        const BenchPlan alone = one_bucket();
        const auto same = std::ranges::find_if(
            plans, [&](const BenchPlan& plan) { return !plan.across && plan.buckets == alone.buckets; });
        const auto reference = static_cast<std::size_t>(same - plans.begin());
        if (reference == shown) plans.push_back(alone);
        const bool any_across = std::ranges::any_of(plans, &BenchPlan::across);
        if (any_across) report_.rounds.in_turn = 4;

        const PlanSteps measured = measured_in_turn(plans);
        report_.measurement = agree_on_measurement(measured.steps(reference), *control_)
                                  .scaled_to(agree_on_compute(measured.steps(reference), *control_));
        std::vector<ProcessorSample> beside;
        for (std::size_t p = 0; p < shown; ++p) beside.push_back(add_result(plans[p], measured.steps(p)));
        // Measured before the rounds it was good enough to plan with.
        // Only now: plans that were searched with it were slower (jobs/buckets.md).
        report_.cost = report_.cost.with_processor(scaled_to(processor_, beside));
        const AcrossTiming of_steps = across_timing();
        for (PlanResult& result : report_.plans) result.predicted = predict(result.plan, timing(), of_steps);
        if (!replay_) report_.profile = profile_of(measured.steps(reference));
        report_.yardstick = yardstick(slices, ends);
        if (control_->size() > 1)
            report_.yardstick.attainable =
                any_across ? attainable_across(slices, timing(), of_steps, least_communication_)
                           : report_.measurement.attainable(slices, timing(), least_communication_);
    }

    PlanSteps measured_in_turn(std::span<const BenchPlan> plans) {
        return {plans, report_.rounds, bench_.make_timeline(),
                [this](const BenchPlan& plan, std::span<StepTimeline> steps) { run_steps(plan, steps); },
                [this](std::size_t round, std::size_t rounds) {
                    check_stop(fmt::format("measuring round {} of {}", round + 1, rounds));
                    start_.log.progress(fmt::format("round {} of {}", round + 1, rounds));
                }};
    }

    /// A row of the report; what its transfers took from the processor.
    ProcessorSample add_result(const BenchPlan& plan, std::span<const StepTimeline> steps) {
        std::vector<StepFigures> figures;
        for (const StepTimeline& step : steps) figures.push_back(figures_of(step));
        take_slowest(figures, *control_);
        // The calls of one rank have ended when they return, although the reducer asks later.
        if (control_->size() == 1)
            for (StepFigures& step : figures) step.communication = step.exposed = step.transfer_cpu = 0;
        report_.plans.push_back({plan, figures, steps[median_step(figures)]});
        return stretch_of(report_.plans.back(), agree_on_compute(steps, *control_));
    }

    /// By how much longer than the steps in one bucket those of a plan compute, and what was sent meanwhile.
    ProcessorSample stretch_of(const PlanResult& result, double compute) const {
        const double hidden =
            spread_over(result.steps, [](const StepFigures& step) { return step.overlap(); }).median;
        const std::size_t transfers =
            result.plan.order.empty() ? result.plan.buckets.size() : result.plan.order.size();
        return {hidden * static_cast<double>(transfers), hidden * static_cast<double>(arena_bytes()),
                compute - report_.measurement.compute()};
    }

    StepYardstick yardstick(std::span<const ParameterSlice> slices, const std::vector<bool>& ends) const {
        StepYardstick yardstick;
        yardstick.compute = report_.measurement.compute();
        const auto per_layer = plan_buckets(slices, ends, {BucketPolicy::per_layer, report_.element_bytes});
        yardstick.communication = report_.cost.seconds(static_cast<double>(arena_bytes()));
        yardstick.least_communication = least_communication_;
        yardstick.tail = report_.cost.seconds(static_cast<double>(report_.bucket_bytes(per_layer.back())));
        return yardstick;
    }

    const JobStart& start_;
    const BucketBenchOptions& options_;
    const Config config_;
    const std::unique_ptr<Communicator> timed_;
    const TrainingInputs inputs_;
    const std::unique_ptr<Communicator> gradients_, control_;
    StepBench bench_;
    std::optional<StepReplay> replay_;
    BucketReport report_;
    double least_communication_ = 0;  // seconds
    ProcessorCost processor_;
    bool measures_both_ = false;  // of the other schedule some plans, too
};

}  // namespace

BucketReport run_bucket_bench(const JobStart& start, const BucketBenchOptions& options) {
    BucketBenchRun run(start, options);
    return run.run();
}

}  // namespace tutti
