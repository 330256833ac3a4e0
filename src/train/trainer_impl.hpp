#pragma once
// What a Trainer holds; shared by the files that implement it.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "progress_report.hpp"
#include "step_sums.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/account.hpp"
#include "tutti/train/batch_stage.hpp"
#include "tutti/train/evaluation.hpp"
#include "tutti/train/optimizer.hpp"
#include "tutti/train/reducer.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti {

struct Trainer::Impl {
    explicit Impl(const TrainingJob& given);

    // trainer_state.cpp: the way to and from files, and to the other ranks
    void initial_weights();
    void restore(const std::string& path);
    void broadcast_state();
    void save();

    // trainer_loop.cpp
    TrainingResult run();
    void start_epoch();
    void step(const std::optional<HostBatch>& batch, Failure failure);
    void after_update(bool epoch_ended);
    void report_step();
    void report_eval();
    bool save_scheduled(bool epoch_ended) const;
    bool minutes_passed() const;
    void note_best(double mean_loss, double accuracy);
    bool finished() const;

    std::int64_t steps_per_epoch() const;
    std::int64_t total_steps() const;

    const TrainingJob job;
    const Config& config;
    const int rank, world;

    DType compute;
    std::unique_ptr<Loss> loss, val_loss;  // evaluation knows no label smoothing
    Graph graph;
    Reducer reducer;
    std::unique_ptr<Optimizer> optimizer;
    BatchStage stage;
    std::optional<BatchStage> val_stage;
    Loader loader;
    std::optional<Loader> val_loader;

    SamplerOptions sampler;
    std::vector<BatchWindow> windows;  // of this epoch, from the cursor on
    std::size_t next_window = 0;

    Progress progress;
    std::string last_eval;
    std::int64_t last_eval_step = -1, last_save_step = -1;
    StepSums sums;
    Account account;
    Stopwatch watch;
    ProgressReport report;
    std::chrono::steady_clock::time_point last_save_time = std::chrono::steady_clock::now();
    bool stopping = false;
};

}  // namespace tutti
