#include "step_bench_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "memory_check.hpp"
#include "provenance.hpp"
#include "synthetic_data.hpp"
#include "tutti/base/memory_use.hpp"
#include "tutti/comm/stop_vote.hpp"
#include "tutti/train/memory_bench.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/product_bench.hpp"
#include "tutti/train/step_bench.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

// Of each size, before the steps and again after them: the machine may have changed meanwhile.
constexpr int product_repetitions = 5, pass_repetitions = 20;
// Of a pass over memory at most: more than caches hold, and little beside a model with as much.
constexpr std::int64_t most_pass_bytes = std::int64_t{256} << 20;
// Between looks at the stop signal.
constexpr std::size_t steps_at_once = 5;

/// One measurement of all ranks.
class StepBenchRun {
  public:
    StepBenchRun(const JobStart& start, const StepBenchOptions& options)
        : start_(start),
          options_(options),
          config_(config_for_bench(start, options)),
          timed_(start.timed_world(config_.distributed)),
          inputs_(open_bench_data(start.over(*timed_), config_,
                                  synthetic_data(options.recipe, config_, options.sample_shape,
                                                 start.world.size(), most_updates(options)))),
          gradients_(make_gradients_communicator(start, config_.distributed, inputs_.gpu, *timed_)),
          control_(timed_->duplicate()),
          chosen_(config_of_run(config_, *gradients_)),
          bench_(
              {chosen_, *inputs_.device, *gradients_, *control_, start.log, nullptr, *inputs_.train, nullptr},
              false) {}

    StepReport run() {
        // Of the steps, and of what is between them.
        tell_errors(*gradients_, [this] { measure(); });
        return std::move(report_);
    }

  private:
    /// With the steps before each turn that are not counted, and those that choose the schedule.
    static std::int64_t most_updates(const StepBenchOptions& options) {
        const auto counted = static_cast<std::int64_t>(options.warmup + options.steps);
        return counted + counted / 5 + 16;
    }

    void measure() {
        describe();
        std::unique_ptr<ProductBench> products;
        together(*control_, "preparing the matrix products", [&] {
            // As large as it takes to fill a GPU's matrix units.
            const std::int64_t n = inputs_.device->kind() == "cpu" ? 1024 : 4096;
            products = std::make_unique<ProductBench>(
                *inputs_.device, arithmetic_of(config_.train.precision),
                options_.products.empty() ? std::vector{n, 2 * n} : options_.products);
        });
        bench_.leave_out_processor_time();  // nothing of the report is made of it
        const StepBench::UpdateBytes update = bench_.update_bytes();
        std::unique_ptr<MemoryBench> passes;
        together(*control_, "preparing passes over memory", [&] {
            passes = std::make_unique<MemoryBench>(*inputs_.device, update.dtype,
                                                   std::min(update.memory, most_pass_bytes));
        });
        measure_yardsticks(*products, *passes);
        measure_steps();
        measure_yardsticks(*products, *passes);
        sum_products(products->times());
        report_.update = {static_cast<double>(update.moved), passes->rate()};
        take({&report_.update.bytes, &report_.update.pass_rate}, report_.slowest_rank);
    }

    static Config config_for_bench(const JobStart& start, const StepBenchOptions& options) {
        Config config = read_training_config(start, options.recipe);
        const int ranks = start.world.size();
        std::int64_t batch = 0;
        together(start.world, "reading the config", [&] { batch = samples_per_update(config, ranks); });
        if (config.run.deterministic && batch % config.run.virtual_shards != 0)
            throw AgreedError(
                ExitCode::usage,
                fmt::format("run.virtual_shards {} does not divide the {} samples of an update, and this "
                            "bench speaks of micro-batches of one size: set train.batch_size to a multiple "
                            "of {}",
                            config.run.virtual_shards, batch, config.run.virtual_shards));
        // The shorter last step of an epoch would be a step of another kind.
        config.data.drop_last = true;
        keep_first_weights(options.recipe, config);
        return config;
    }

    void describe() {
        report_.provenance = nlohmann::ordered_json::parse(
            provenance(*inputs_.device, inputs_.places, start_.environment, options_.recipe.overrides));
        report_.model = (config_.model.name.empty() ? "layers" : config_.model.name) +
                        products_note(config_.train.precision);
        const Arithmetic arithmetic = arithmetic_of(config_.train.precision);
        report_.precision = std::string(name_of(arithmetic.products));
        report_.data =
            inputs_.train->name() + ", samples of " + to_string(inputs_.train->info().sample_shape);
        const int ranks = start_.world.size();
        report_.batch_size = largest_micro_batch(config_, ranks);
        report_.accumulate = micro_batches_per_update(config_, ranks);
        report_.all_reduce_path = gradients_->all_reduce_path();
        report_.warmup = options_.warmup;
        report_.layers = bench_.graph().report();
        for (const RankPlace& place : inputs_.places) report_.threads += place.threads;
    }

    void check_stop(const std::string& phase) { end_if_stopped(*control_, phase); }

    /// On all ranks at the same time, as the steps are.
    void measure_yardsticks(ProductBench& products, MemoryBench& passes) {
        start_.log.progress("matrix products");
        check_stop("measuring matrix products");
        products.run(product_repetitions);
        start_.log.progress("passes over memory");
        check_stop("measuring passes over memory");
        passes.run(pass_repetitions);
    }

    void sum_products(std::span<const ProductTimes> times) {
        std::vector<double> rates;
        for (const ProductTimes& one : times) rates.push_back(one.rate());
        control_->all_reduce(view_of(std::span(rates)), ReduceOp::sum).wait();
        for (std::size_t i = 0; i < times.size(); ++i) report_.products.push_back({times[i].n, rates[i]});
    }

    /// Returns how many steps were made.
    std::size_t run_steps(std::span<StepTimeline> steps, const std::string& phase) {
        std::size_t made = 0;
        for (std::size_t done = 0; done < steps.size(); done += steps_at_once) {
            check_stop(phase);
            start_.log.progress(fmt::format("{} {} of {}", phase, done, steps.size()));
            made += bench_.run(steps.subspan(done, std::min(steps_at_once, steps.size() - done)));
        }
        return made;
    }

    void measure_steps() {
        check_stop("choosing the schedule");
        start_.log.progress("the schedule");
        bench_.choose_schedule();
        report_.across = bench_.spreads_across_steps();
        std::vector<StepTimeline> steps(options_.warmup, bench_.make_timeline());
        run_steps(steps, "warming up, step");
        steps.assign(options_.steps, bench_.make_timeline());
        const std::int64_t before = bench_.graph_steps();
        const std::int64_t faults = page_faults();
        const std::size_t made = run_steps(steps, "measuring step");
        report_.page_faults = static_cast<double>(page_faults() - faults) / static_cast<double>(made);
        control_->all_reduce(view_of(std::span(&report_.page_faults, 1)), ReduceOp::sum).wait();
        const auto graphs = static_cast<std::size_t>(bench_.graph_steps() - before);
        report_.cuda_graph = graphs == steps.size();
        report_.why_no_cuda_graph = bench_.why_no_graph();
        if (graphs > 0 && !report_.cuda_graph)
            report_.why_no_cuda_graph =
                fmt::format("only {} of {} steps were one: warm up longer", graphs, steps.size());

        std::vector<StepFigures> figures;
        for (const StepTimeline& step : steps) {
            figures.push_back(figures_of(step));
            // The calls of one rank have ended when they return, although the reducer asks later.
            if (control_->size() == 1) figures.back().exposed = 0;
        }
        report_.account = account_of(figures);
        report_.profile = profile_of(steps);
        // What is left of forward and backward beside the layers is not the loss there.
        if (report_.cuda_graph) report_.profile.loss_forward = report_.profile.loss_backward = 0;
        report_.slowest_rank = slowest_rank();
        take_from(report_.slowest_rank);
        take_slowest(figures, *control_);
        for (const StepFigures& step : figures) report_.steps.push_back(step.step);
    }

    static StepAccount account_of(std::span<const StepFigures> steps) {
        const auto median = [&](const auto& part) {
            std::vector<double> values;
            for (const StepFigures& step : steps) values.push_back(part(step));
            return spread_of(std::move(values)).median;
        };
        using Step = const StepFigures&;
        return {.data = median([](Step s) { return s.data; }),
                .forward = median([](Step s) { return s.forward; }),
                .backward = median([](Step s) { return s.backward; }),
                .exposed = median([](Step s) { return s.exposed; }),
                .optimizer = median([](Step s) { return s.optimizer; }),
                .other = median([](Step s) {
                    return s.step - s.data - s.forward - s.backward - s.exposed - s.optimizer;
                })};
    }

    int slowest_rank() {
        const StepAccount& mine = report_.account;
        std::vector<double> busy(static_cast<std::size_t>(control_->size()), 0);
        busy[static_cast<std::size_t>(control_->rank())] =
            mine.data + mine.forward + mine.backward + mine.optimizer;
        control_->all_reduce(view_of(std::span(busy)), ReduceOp::max).wait();
        return static_cast<int>(std::ranges::max_element(busy) - busy.begin());
    }

    /// Account and profile of that rank, on every rank.
    void take_from(int rank) {
        StepAccount& account = report_.account;
        StepProfile& profile = report_.profile;
        std::vector<double*> places{&account.data,     &account.forward,      &account.backward,
                                    &account.exposed,  &account.optimizer,    &account.other,
                                    &profile.data,     &profile.loss_forward, &profile.loss_backward,
                                    &profile.optimizer};
        for (auto* layers : {&profile.layer_forward, &profile.layer_backward})
            for (double& seconds : *layers) places.push_back(&seconds);
        take(places, rank);
    }

    /// The numbers of that rank, on every rank.
    void take(const std::vector<double*>& places, int rank) {
        std::vector<double> numbers;
        for (const double* place : places) numbers.push_back(*place);
        control_->broadcast(view_of(std::span(numbers)), rank).wait();
        for (std::size_t i = 0; i < places.size(); ++i) *places[i] = numbers[i];
    }

    const JobStart& start_;
    const StepBenchOptions& options_;
    const Config config_;
    const std::unique_ptr<Communicator> timed_;
    const TrainingInputs inputs_;
    const std::unique_ptr<Communicator> gradients_, control_;
    const Config chosen_;
    StepBench bench_;
    StepReport report_;
};

}  // namespace

StepReport run_step_bench(const JobStart& start, const StepBenchOptions& options) {
    StepBenchRun run(start, options);
    return run.run();
}

}  // namespace tutti
