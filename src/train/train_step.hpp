#pragma once
// Everything that one update after another needs: data, model, reducer, optimizer, and where they stand.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "batch_statistics.hpp"
#include "shard_lanes.hpp"
#include "shard_sums.hpp"
#include "sharded_arenas.hpp"
#include "skipped_series.hpp"
#include "step_graph.hpp"
#include "step_sums.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/account.hpp"
#include "tutti/train/batch_stage.hpp"
#include "tutti/train/failed_step.hpp"
#include "tutti/train/gradient_accumulator.hpp"
#include "tutti/train/optimizer.hpp"
#include "tutti/train/reducer.hpp"
#include "tutti/train/skipped_samples.hpp"
#include "tutti/train/step_timeline.hpp"
#include "tutti/train/trainer.hpp"
#include "tutti/train/weight_average.hpp"

namespace tutti {

/// The micro-batches of one update (in deterministic mode this rank's virtual shards): windows [first, first
/// + count) of the epoch, positions [begin, end).
struct GlobalBatch {
    std::size_t first = 0, count = 0;
    std::int64_t begin = 0, end = 0;
};

/// What became of an update.
struct UpdateReport {
    double lr = 0;
    double gradient_norm = 0;  ///< before clipping; 0 where nobody asked for it
    std::int64_t samples = 0;  ///< positions of the epoch that it consumed
    bool skipped = false;      ///< by nan_policy: no step, but its samples are consumed
};

/// Knows nothing of files, checkpoints and evaluations. Every rank calls the same methods in the same order.
struct TrainStep {
    explicit TrainStep(const TrainingJob& given);
    ~TrainStep();
    TrainStep(const TrainStep&) = delete;
    TrainStep& operator=(const TrainStep&) = delete;

    /// Those of model.init_from but for model.init_except, where the job does not resume; else the default of
    /// run.seed.
    void initial_weights();
    /// parts: those that begin anew.
    void load_initial(std::vector<NamedTensor> tensors, const std::vector<std::string>& parts,
                      const std::string& file);
    /// Of the samples of training, where the weights of the file say how theirs were normalised.
    void doubt_other_data(const std::string& file, bool keeps_head);
    /// Begins the epoch that `progress` stands in, at its position.
    void start_epoch();
    bool epoch_has_more() const { return next_window < windows.size(); }
    /// Whether the next update is the epoch's last.
    bool epoch_ends_with_next() const {
        return next_window + static_cast<std::size_t>(micro_batches) >= windows.size();
    }
    /// The next update of the epoch. time: from rank 0; all ranks then find it in `sums`. failure: of this
    /// rank, before the update, which then ends all of them with an AgreedError.
    UpdateReport update(const ClockDecisions& time = {}, Failure failure = {});
    /// With the schedule across steps an update returns while buckets are on the network. The next update's
    /// forward goes on with them: before a layer runs, its parameters get their sums and their part of the
    /// optimizer's step. complete() does all that is left, at once: parameters, optimizer state and average
    /// are then those of `progress`. The graph calls it before others read or replace parameters through it;
    /// who goes to arenas or communicators himself calls it first. Throws PeerError that names the step.
    void complete();
    /// Why updates cannot be spread across steps with this config, device and world; nothing: they can.
    static std::string obstacle_across_steps(const TrainingJob& job);
    /// From the next update on; only where there is no obstacle. Completes.
    void spread_across_steps(bool spread);
    bool spreads_across_steps() const { return across_; }
    /// Another plan (Reducer::replan). Completes.
    void replan(std::vector<Bucket> buckets, std::vector<std::size_t> order = {});
    /// From the next update on its timeline is written there; null: nowhere. With `inside`, layers and
    /// buckets, too, for which each operation is issued on its own, never as a CUDA graph.
    void record(StepRecorder* to, bool inside = true);

    /// Samples of a whole update: batch_size x ranks x accumulate.
    std::int64_t global_batch() const;
    /// Positions of an epoch that are computed.
    std::int64_t epoch_limit() const;
    std::int64_t steps_per_epoch() const { return steps_from(0); }
    /// Updates that an epoch has from there on.
    std::int64_t steps_from(std::int64_t position) const;
    /// Of the last so many positions of an epoch, those behind the last batch that is full (data.drop_last).
    std::int64_t dropped(std::int64_t left) const;

    const TrainingJob job;
    const Config& config;
    const int rank, world;
    const std::int64_t largest_micro_batch, micro_batches;  ///< in samples; per update
    /// A GPU's batch statistics are in its memory and come between buckets: a communicator of their own. Made
    /// before anything that can fail on one rank alone. Null: control reaches them (ShardSums, too).
    const std::unique_ptr<Communicator> statistics_way = world > 1 && job.device.kind() != "cpu" &&
                                                                 !job.config.run.deterministic
                                                             ? job.gradients.duplicate()
                                                             : nullptr;
    /// Whether sums are used for the update while others are still added up. Here for the same reason.
    const bool updates_in_reduction = may_update_in_reduction(job);

    DType compute;
    Graph graph;
    const std::vector<double> weights_of_classes;  // with train.class_weights
    std::unique_ptr<Loss> loss;
    std::optional<ShardedArenas> shards;  // with zero1 on several ranks
    std::optional<ShardSums> shard_sums;  // in deterministic mode
    Reducer reducer;
    GradientAccumulator accumulator;
    std::unique_ptr<Optimizer> optimizer;
    std::optional<WeightAverage> average;  // with train.ema
    Ops& arena_ops;                        // for whole arenas
    Buffer norm_memory;                    // f64[1]
    Buffer kept_buffers;                   // with nan_policy skip: those before the update
    Loader loader;
    BatchStage stage;                               // after the loader, from whose memory it copies
    std::vector<std::unique_ptr<ShardLane>> lanes;  // in deterministic mode, by thread

    SamplerOptions sampler;
    bool whole_updates = false;        // where measured: an epoch's smaller last update is left out
    std::vector<BatchWindow> windows;  // micro-batches of this epoch, from the cursor on
    std::size_t next_window = 0;

    std::string initial_note;  ///< on rank 0: what of model.init_from was not taken; else nothing
    std::vector<std::string> initial_doubts;  ///< on rank 0: of the weights that it begins with
    Progress progress;
    BatchStatistics batch_statistics{statistics_way ? *statistics_way : job.control};
    StepSums sums;
    std::optional<FailedStep> failed_step;  // why the run ends, where nan_policy is why
    SkippedSeries skipped_series;           // since the last update, or the beginning of this process
    SkippedSamples unreadable;
    StepGraph step_graph{config,      job.device, job.gradients, statistics_way.get(),
                         job.control, job.log};  // gone before the communicators
    Account account;
    Stopwatch watch;
    StepRecorder* recorder = nullptr;
    bool times_inside = false;
    bool in_graph = false;     // the gradients of the update under way
    std::int64_t updated = 0;  // elements of the arena whose update came before the end of the reduction

  private:
    /// The gradients by the graph, where the step is one for it.
    bool graph_micro_batch(const GlobalBatch& batch, std::int64_t n, const StepContext& context,
                           LossSums& mine);
    /// An update whose buckets are on the network.
    struct Deferred {
        double lr = 0;
        std::int64_t step = 0;
    };
    /// What the parameters [first, last) need of the deferred update. until_now: what the time since the last
    /// lap is charged to, if there is anything to do.
    void catch_up(std::size_t first, std::size_t last, double& until_now);
    void update_bucket(const Deferred& update, std::size_t bucket);
    bool defer(double lr, Work& step_sums);

    /// The micro-batches of the next update; the epoch has more.
    GlobalBatch next_global_batch() const;
    /// Keeps the graph's buffers as they are now, or gives it back those of before; where they are kept.
    enum class Buffers { now, before };
    void copy_buffers(Buffers from);
    double rate_of(const GlobalBatch& batch) const;
    /// The new weights, or, where the gradients forbid it or no sample could be read, a warning. mine: the
    /// sums of this rank.
    void use_gradients(const GlobalBatch& batch, const LossSums& mine, UpdateReport& report);
    /// Nothing where it cannot be read: then `failure` says why.
    std::optional<HostBatch> next_batch(BatchStage& from, Failure& failure);
    std::int64_t load_micro_batch(StepContext& context, Failure& failure);
    void micro_batch(const GlobalBatch& batch, std::size_t index, LossSums& mine, Failure& failure,
                     const ClockDecisions& time, Work& step_sums);
    StepContext training_context();
    /// What this rank brings to the sums of the step.
    void set_sums(const LossSums& mine, const Failure& failure, const ClockDecisions& time);
    /// What the loss's gradients are divided by: the weight of the global batch, or 1 where that is known
    /// only behind this backward. Waits for the sums of the step where these tell it.
    double weight_for_backward(const GlobalBatch& batch, bool last, Work& step_sums);
    /// Of n samples. last: of the update's micro-batches, whose gradients go to the reducer.
    void backward(std::int64_t n, const StepContext& context, double weight, bool last);
    void make_lanes();
    /// In deterministic mode, in the place of micro_batch and of reduce.
    void compute_shards(const GlobalBatch& batch, Failure& failure);
    /// One thread at a time.
    void load_shard(ShardLane& lane, Failure& failure);
    /// times: of the first lane's, where they are recorded.
    void compute_shard(ShardLane& lane, std::int64_t shard, const GlobalBatch& batch, MicroBatchTimes* times);
    LossSums sum_shards(const Failure& failure, const ClockDecisions& time);
    /// Whether the optimizer keeps squares of gradients that are infinite in its element type: its state
    /// would never be finite again. The norm is that of before clipping.
    bool squares_overflow(double gradient_norm) const;
    /// Why this update's values forbid it, or nothing. Throws where nan_policy is stop.
    std::string not_finite(const GlobalBatch& batch, const LossSums& mine, double gradient_norm);
    /// Collective.
    void keep_failed_step(const GlobalBatch& batch, const LossSums& mine, double gradient_norm);
    /// Whether a bucket may be updated before the others have their sums: by the config, and by this step's
    /// sums, which must be there.
    static bool may_update_bucket_by_bucket(const TrainingJob& job);
    /// Whether sums may be used for the update while others are still added up, and that is faster. Ranks
    /// may differ in what makes it so: they agree (collective).
    static bool may_update_in_reduction(const TrainingJob& job);
    bool update_in_reduction(double lr, Work& step_sums);
    bool all_updated() const { return updated == graph.parameter_arena().count(); }
    bool update_is_certain() const { return !sums.failed() && !sums.non_finite() && sums.loss().weight > 0; }
    /// Whether a global batch's weight is known before the ranks' sums are there.
    bool weight_is_known() const {
        return loss->weight_is_sample_count() && config.data.on_error == OnError::stop;
    }
    /// Counts and names what ranks could not read in this step.
    void note_unreadable();
    void reduce(double lr, Work& step_sums);
    void update_weights(const UpdateReport& report);
    double gradient_norm();
    void scale_gradients(double factor);
    /// Charges the time since the last lap to a part of the account, and to a span where one is recorded.
    void lap(double& seconds, TimeSpan* span);

    std::chrono::steady_clock::duration updates_{};  // within a reduction
    bool across_ = false;
    std::optional<Deferred> deferred_;
};

}  // namespace tutti
