#pragma once
// What a Trainer holds; shared by the files that implement it.

#include <chrono>
#include <optional>
#include <string>

#include "bucket_tuner.hpp"
#include "order_measurement.hpp"
#include "progress_report.hpp"
#include "run_place.hpp"
#include "run_schedule.hpp"
#include "trace.hpp"
#include "train_step.hpp"
#include "tutti/train/evaluation_result.hpp"
#include "tutti/train/normalisation.hpp"
#include "tutti/train/trainer.hpp"
#include "wall_time.hpp"
#include "weight_check.hpp"

namespace tutti {

struct Trainer::Impl {
    explicit Impl(const TrainingJob& given);

    // trainer_state.cpp: the way to and from files, and to the other ranks
    void restore(const std::string& path);
    void go_on_in_directory();
    /// Of a run that was killed between its last save and the removal of checkpoints that this pushed out.
    void prune_left_over();
    /// What the resumed state says to be saved counts as saved, and as the best, where the directory has it.
    void note_what_is_there();
    /// Whether the checkpoint, which is the best so far, counts by train.checkpoint.best_from.
    bool is_late_enough(const std::string& path) const;
    /// trained: what the resumed run says that its samples were normalised by; empty in older checkpoints.
    void forget_other_metrics(const Config& before, const std::optional<Normalisation>& trained);
    /// Whether evaluations normalise their samples otherwise than they did before.
    bool is_other_evaluation(const Config& before, const std::optional<Normalisation>& trained) const;
    void scatter_optimizer_state(const Checkpoint& checkpoint, const std::string& path);
    void broadcast_state();
    /// Those of the whole optimizer, on rank 0. Collective.
    std::vector<NamedTensor> optimizer_tensors();
    void save();

    // trainer_loop.cpp: epochs, and what happens between updates
    TrainingResult run();
    void warn_of_rates();
    void warn_of_dropped_batches();
    /// Until the run is finished or a signal or a limit stops it.
    void run_epochs();
    bool finished() const;
    bool stopped_early() const;
    bool is_evaluated() const;
    /// The resumed checkpoint is all that these settings ask for.
    bool has_nothing_left() const;
    /// Settings with which a finished run would train longer.
    std::string to_go_on() const;
    void step();
    void check_ready_order();
    void verify_weights();
    void after_update(bool skipped);
    /// Of the last update, by train.eval_every in steps, and not made yet.
    bool evaluation_is_due() const;
    void evaluate_within_epoch();
    /// With the evaluation that is due. False: a signal has ended that, and nothing is changed.
    bool end_epoch();
    /// To the log and to epochs.jsonl.
    void report_epoch();
    /// Also the one in progress where no update is left of it.
    std::int64_t finished_epochs(const Progress& at) const;
    void final_evaluation();
    void finish_epoch(bool skipped = false);
    void save_if_due(bool epoch_ended, bool skipped);
    void report_step(const UpdateReport& update);
    /// On rank 0, to metrics.jsonl. What is wrong with it all ranks hear in the next update, before the next
    /// checkpoint or at the end.
    void append_row(const std::string& row);
    /// The same to another file.
    void append(void (RunDirectory::*to)(const std::string&), const std::string& row);
    std::int64_t total_steps() const;
    void set_place(RunPlace::Work work);

    // trainer_failure.cpp: an update that ends the run
    UpdateReport make_update();
    /// After which the model is still that of before the update. What to add to the error: how to look at
    /// it (on rank 0, where it could be recorded). Collective; throws nothing that would hide the error.
    std::string record_failed_step(const std::string& reason);
    /// With `training.skipped_series` too long: throws AgreedError. Collective.
    [[noreturn]] void end_after_skipped();
    /// On rank 0: where the weights are that nothing has changed since, and how to go on; to be put behind
    /// them.
    std::string after_skipped() const;

    // trainer_buckets.cpp: plans that are measured
    void choose_buckets();
    bool use_buckets_of_checkpoint();
    bool use_kept_profile();
    void use_buckets(const BucketTrial& choice);
    void tune_buckets(const UpdateReport& update);
    void measure_order();

    // trainer_time.cpp: what rank 0's clock decides
    ClockDecisions clock_decisions();
    bool minutes_passed() const;
    WallTime::Ahead ahead() const;

    // trainer_trace.cpp: time lines of the first steps
    void start_trace();
    void trace_step();
    void write_trace();
    void record_if_needed();

    // trainer_evaluation.cpp: metrics of data.val, and what follows from them
    /// Ends early on a signal, but not on one that has stopped the training: false, and nothing is changed.
    bool report_eval();
    /// Of the moving average's weights, where there are such.
    EvaluationResult evaluate_weights();
    /// To metrics.jsonl, and to the log.
    void append_eval(const EvaluationResult& result, std::int64_t epoch);
    void log_eval(const EvaluationResult& result, std::int64_t epoch);
    void note_best(const EvaluationResult& result);
    void note_for_early_stopping(const EvaluationResult& result);

    TrainingJob job;  // its directory may come later
    const Config& config;
    Config recorded;  // what checkpoints keep
    const RunSchedule schedule{config.train, job.val != nullptr};
    TrainStep training;
    // Parts of `training` that everything here speaks of.
    const int rank = training.rank, world = training.world;
    Graph& graph = training.graph;
    std::optional<WeightAverage>& average = training.average;
    Progress& progress = training.progress;
    Account& account = training.account;
    Stopwatch& watch = training.watch;

    // What evaluation computes with beside the graphs of `training`, by thread of its lanes.
    struct ValLane {
        std::unique_ptr<Loss> loss;  // knows no label smoothing
        BatchStage stage;
    };
    DataConfig val_data;  // of validation: config's, or with the training data's normalisation
    std::optional<Loader> val_loader;
    std::vector<std::unique_ptr<ValLane>> val_lanes;
    SkippedSamples val_unreadable;

    WeightCheck weight_check{graph, job.device, job.control};  // distributed.verify_every

    std::optional<StepRecorder> recorder;
    std::optional<Trace> trace;  // until it is written
    struct Untraced {
        std::int64_t step;
        std::vector<Bucket> buckets;
    };
    std::optional<Untraced> untraced;                   // the last update, where its buckets may not be done
    std::optional<BucketTuner> tuner;                   // until the buckets are chosen
    std::optional<OrderMeasurement> order_measurement;  // until the order of issue is chosen
    std::string bucket_plan;       // the chosen one, for the checkpoint (JSON); empty before, or by config
    std::string bucket_schedules;  // schedules_tried() for that choice
    std::string bucket_key;

    std::int64_t resumed_step = -1;
    bool resumed_is_evaluated = false;  // on rank 0: the checkpoint holds the evaluation of its step
    std::string data_sign;  // rank 0: data_fingerprint() of the training data; empty where none can be told
    std::string resumed_from, resumed_changes;  // the checkpoint, and on rank 0 what is set otherwise since
    std::string last_eval;
    std::int64_t last_eval_step = -1;
    std::int64_t last_save_samples = -1;  // samples, and not steps: a skipped update consumes some, too
    bool best_is_unsaved = false;
    struct {
        std::int64_t keep = 0;
        std::optional<std::int64_t> best;
    } left_over;  ///< rank 0: what the resumed run kept; 0: all, as skipped updates push out no checkpoint
    bool best_may_be_too_early = false;  ///< rank 0: the resumed run let earlier ones count
    RunPlace place;                      // of run()
    ProgressReport report;
    std::chrono::steady_clock::time_point last_save_time = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point epoch_began =
        std::chrono::steady_clock::now();  // here, of this process
    bool stopping = false;
    Failure unwritten;                  // on rank 0: why a row could not be written
    std::optional<WallTime> wall_time;  // with run.walltime, on rank 0
    bool ready_order_checked = false;
};

}  // namespace tutti
