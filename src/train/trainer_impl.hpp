#pragma once
// What a Trainer holds; shared by the files that implement it.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "batch_statistics.hpp"
#include "progress_report.hpp"
#include "step_sums.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/account.hpp"
#include "tutti/train/batch_stage.hpp"
#include "tutti/train/evaluation.hpp"
#include "tutti/train/gradient_accumulator.hpp"
#include "tutti/train/optimizer.hpp"
#include "tutti/train/reducer.hpp"
#include "tutti/train/trainer.hpp"
#include "tutti/train/weight_average.hpp"

namespace tutti {

/// The micro-batches of one update: windows [first, first + count) of the epoch, positions [begin, end).
struct GlobalBatch {
    std::size_t first = 0, count = 0;
    std::int64_t begin = 0, end = 0;
};

/// What a row of metrics.jsonl says of an update.
struct UpdateReport {
    double lr = 0;
    double gradient_norm = 0;  ///< before clipping; 0 where nobody asked for it
};

struct Trainer::Impl {
    explicit Impl(const TrainingJob& given);

    // trainer_state.cpp: the way to and from files, and to the other ranks
    void initial_weights();
    void restore(const std::string& path);
    void forget_other_metrics(const Config& before);
    void broadcast_state();
    void save();

    // trainer_loop.cpp: epochs, and what happens between updates
    TrainingResult run();
    bool finished() const;
    bool stopped_early() const;
    void start_epoch();
    void after_update(bool skipped);
    void end_epoch();
    void finish_epoch(bool skipped = false);
    void save_if_due(bool epoch_ended, bool skipped);
    void report_step(const UpdateReport& update);
    bool save_scheduled(bool epoch_ended, bool skipped) const;
    bool minutes_passed() const;
    /// Samples of a whole update: batch_size x ranks x accumulate.
    std::int64_t global_batch() const;
    /// Positions of an epoch that are computed.
    std::int64_t epoch_limit() const;
    std::int64_t steps_per_epoch() const;
    std::int64_t total_steps() const;

    // trainer_step.cpp: one update, from its micro-batches to the new weights
    void step();
    std::int64_t load_micro_batch(StepContext& context, Failure& failure);
    void micro_batch(const GlobalBatch& batch, std::size_t index, LossSums& mine, Failure& failure,
                     Work& step_sums);
    /// Why this update must not be made, or nothing. Throws where nan_policy is stop.
    std::string not_finite(const LossSums& mine, double gradient_norm);
    void update_weights(const UpdateReport& update);
    double gradient_norm();

    // trainer_evaluation.cpp: metrics of data.val, and what follows from them
    void report_eval();
    void note_best(const EvaluationResult& result);
    void note_for_early_stopping(const EvaluationResult& result);

    const TrainingJob job;
    const Config& config;
    const int rank, world;

    DType compute;
    std::unique_ptr<Loss> loss, val_loss;  // evaluation knows no label smoothing
    Graph graph;
    Reducer reducer;
    GradientAccumulator accumulator;
    std::unique_ptr<Optimizer> optimizer;
    std::optional<WeightAverage> average;  // with train.ema
    Ops& arena_ops;                        // for whole arenas
    Buffer norm_memory;                    // f64[1]
    BatchStage stage;
    std::optional<BatchStage> val_stage;
    Loader loader;
    std::optional<Loader> val_loader;

    SamplerOptions sampler;
    std::vector<BatchWindow> windows;  // micro-batches of this epoch, from the cursor on
    std::size_t next_window = 0;

    Progress progress;
    std::string last_eval;
    std::int64_t last_eval_step = -1;
    std::int64_t last_save_samples = -1;  // samples, and not steps: a skipped update consumes some, too
    bool best_is_unsaved = false;
    BatchStatistics batch_statistics{job.control};
    StepSums sums;
    Account account;
    Stopwatch watch;
    ProgressReport report;
    std::chrono::steady_clock::time_point last_save_time = std::chrono::steady_clock::now();
    bool stopping = false;
};

}  // namespace tutti
