#include "tutti/train/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "host_values.hpp"
#include "score_gathering.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/ranking_metric_names.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/comm/butterfly.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

double part(std::int64_t count, double of) {
    return of > 0 ? static_cast<double>(count) / of : 0.0;
}

/// The counts of one rank, in the order in which they are summed over all: doubles, so that one all-reduce
/// carries the loss, too.
class EvaluationSums {
  public:
    /// classes: 0 where there are none.
    EvaluationSums(std::size_t classes, bool confusion)
        : classes_(classes), values_(header + 2 * classes + (confusion ? classes * classes : 0)) {}

    /// All but the loss, which is summed in its order.
    void add(const LossSums& sums) {
        values_[1] += sums.weight;
        values_[2] += static_cast<double>(sums.correct);
    }
    void add(std::int64_t label, std::int64_t predicted, std::int64_t place, std::int64_t topk) {
        const auto row = static_cast<std::size_t>(label), column = static_cast<std::size_t>(predicted);
        values_[4] += place < topk ? 1 : 0;
        values_[header + row] += 1;
        values_[header + classes_ + row] += label == predicted ? 1 : 0;
        const std::size_t matrix = header + 2 * classes_;
        if (values_.size() > matrix) values_[matrix + row * classes_ + column] += 1;
    }

    void add_skipped(std::int64_t samples) { values_[5] += static_cast<double>(samples); }

    /// loss, errors, stopped: of this rank. True when a rank failed.
    bool all_reduce(Communicator& communicator, double loss, const TargetErrors& errors, bool failed,
                    bool stopped, bool along_tree) {
        values_[0] = loss;
        values_[6] = errors.absolute;
        values_[7] = errors.squared;
        values_[8] = errors.distance;
        values_[3] = failed ? 1 : 0;
        values_[9] = stopped ? 1 : 0;
        if (along_tree)
            butterfly_sum(communicator, view_of(std::span(values_)));
        else
            communicator.all_reduce(view_of(std::span(values_)), ReduceOp::sum).wait();
        return values_[3] > 0;
    }

    EvaluationResult result(std::int64_t topk) const {
        EvaluationResult result;
        result.loss = values_[0];
        result.weight = values_[1];
        result.correct = static_cast<std::int64_t>(values_[2]);
        result.unreadable = static_cast<std::int64_t>(values_[5]);
        result.errors = {values_[6], values_[7], values_[8]};
        result.stopped = values_[9] > 0;
        result.topk = topk;
        result.in_topk = static_cast<std::int64_t>(values_[4]);
        result.of_label = counts(header, classes_);
        result.hit_of_label = counts(header + classes_, classes_);
        const std::size_t matrix = header + 2 * classes_;
        result.confusion = counts(matrix, values_.size() - matrix);
        return result;
    }

  private:
    // loss, weight, correct, failed, in top-k, skipped, three of TargetErrors, stopped
    static constexpr std::size_t header = 10;

    std::vector<std::int64_t> counts(std::size_t begin, std::size_t count) const {
        std::vector<std::int64_t> result(count);
        for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<std::int64_t>(values_[begin + i]);
        return result;
    }

    std::size_t classes_;
    std::vector<double> values_;
};

/// What a window adds to sums whose bits depend on their order.
struct WindowSums {
    double loss = 0;
    TargetErrors errors;
};

/// outputs: [targets.size()], K of a sample.
TargetErrors errors_of(std::span<const double> outputs, std::span<const float> targets, std::size_t width) {
    TargetErrors errors;
    for (std::size_t begin = 0; begin < targets.size(); begin += width) {
        double squares = 0;
        for (std::size_t i = begin; i < begin + width; ++i) {
            const double difference = outputs[i] - static_cast<double>(targets[i]);
            errors.absolute += std::abs(difference);
            squares += difference * difference;
        }
        errors.squared += squares;
        errors.distance += std::sqrt(squares);
    }
    return errors;
}

/// With into how many parts, 2^k, the windows of this rank are dealt in turn: of each the losses are summed
/// by itself, and then along a tree.
std::pair<std::vector<BatchWindow>, std::size_t> windows_of(const EvaluationJob& job) {
    const std::int64_t samples = job.dataset.info().samples;
    const int world = job.communicator.size(), rank = job.communicator.rank();
    if (job.virtual_shards > 0) {
        const ShardLayout layout{job.virtual_shards, world, rank};
        return {shard_windows(layout, 0, samples, job.batch_size * layout.shards),
                static_cast<std::size_t>(layout.per_rank())};
    }
    return {
        epoch_windows(
            {.cursor = 0, .limit = samples, .batch_size = job.batch_size, .world_size = world, .rank = rank}),
        1};
}

/// One evaluation of this rank's samples, by one lane or several at once.
class Pass {
  public:
    explicit Pass(const EvaluationJob& job)
        : job_(job), sums_(classes(), job.confusion), windows_(windows_of(job)) {
        std::vector<std::int64_t> order(static_cast<std::size_t>(job.dataset.info().samples));
        std::iota(order.begin(), order.end(), std::int64_t{0});
        window_sums_.resize(windows_.first.size());
        // What one stage has fetched ahead of an earlier pass, that stage drops.
        job.lanes.front().stage.start(job.loader, std::move(order), windows_.first);
    }

    /// Batches until there are no more, or somebody failed. One thread per lane.
    void compute(const EvaluationLane& lane) {
        try {
            Taken batch;
            while (take_next(lane, batch)) compute(lane, batch);
        } catch (const Error& error) {
            const std::lock_guard lock(turn_);
            if (failure_.code == ExitCode::done) failure_ = reading_failure(error);
        }
    }

    /// Collective.
    EvaluationResult result() {
        if (job_.skipped) sums_.add_skipped(job_.skipped->take_count());
        const double loss = sum_of([](const WindowSums& sums) { return sums.loss; });
        const TargetErrors errors{sum_of([](const WindowSums& sums) { return sums.errors.absolute; }),
                                  sum_of([](const WindowSums& sums) { return sums.errors.squared; }),
                                  sum_of([](const WindowSums& sums) { return sums.errors.distance; })};
        if (sums_.all_reduce(job_.communicator, loss, errors, failure_.code != ExitCode::done, stopped_,
                             job_.virtual_shards > 0))
            agree(job_.communicator, failure_, "evaluation");
        EvaluationResult result = sums_.result(classes() > 0 ? job_.topk : 0);
        result.loss_only = job_.loss_only;
        // On all ranks or none: they have agreed on both by the sums.
        if (is_ranked() && !result.stopped) result.scores = gather_scores(job_.communicator, scores_);
        result.targets = job_.loss_only ? 0 : job_.dataset.info().targets;
        if (result.unreadable > 0 && !result.stopped) {
            job_.skipped->tell(job_.communicator, *job_.log);
            SkippedSamples::check_share(result.unreadable, job_.dataset.info().samples, job_.dataset.name());
        }
        return result;
    }

  private:
    /// A batch in a lane's input, and what else is needed of it when the loader has gone on.
    struct Taken {
        std::size_t window;
        std::vector<std::int64_t> labels, positions;
        std::vector<float> targets;
    };

    bool has_targets() const { return job_.dataset.info().targets > 0 && !job_.loss_only; }

    std::size_t classes() const {
        if (has_targets() || job_.loss_only) return 0;
        return static_cast<std::size_t>(job_.lanes.front().graph.output_shape().count());
    }

    bool is_ranked() const { return job_.ranking && classes() == 2; }

    bool must_stop() const { return job_.ends_on_signal && StopSignal::pending() != 0; }

    /// The next batch with samples. Who takes it reads them, too: the loader gives batches in their order.
    bool take_next(const EvaluationLane& lane, Taken& taken) {
        const std::lock_guard lock(turn_);
        while (failure_.code == ExitCode::done) {
            const bool all = next_ == windows_.first.size();
            stopped_ = stopped_ || (!all && must_stop());
            if (stopped_) return false;
            const std::optional<HostBatch> batch = lane.stage.next(job_.loader);
            if (!batch) return false;
            taken.window = next_++;
            if (job_.skipped) job_.skipped->add(batch->skipped);
            if (batch->window.count == 0) continue;
            lane.stage.load(*batch, lane.graph.input(batch->window.count));
            lane.stage.keep_wanted();
            taken.labels.assign(batch->labels.begin(), batch->labels.end());
            taken.targets.assign(batch->targets.begin(), batch->targets.end());
            taken.positions.assign(batch->positions.begin(), batch->positions.end());
            return true;
        }
        return false;
    }

    void compute(const EvaluationLane& lane, const Taken& taken) {
        const auto n = static_cast<std::int64_t>(taken.labels.size());
        const TensorView outputs = lane.graph.forward(n, {Phase::evaluate, job_.seed, 0, taken.positions});
        if (job_.lanes.size() == 1) lane.stage.fetch_ahead(job_.loader);  // while a GPU computes
        // Before the loss, whose workspace may be the outputs' own memory.
        LabelRanks ranks;
        TargetErrors errors;
        std::vector<double> logits;
        if (has_targets())
            errors = errors_of(on_host(lane.stage.device(), outputs), taken.targets,
                               static_cast<std::size_t>(job_.dataset.info().targets));
        else if (!job_.loss_only)
            ranks = lane.stage.rank_labels(outputs);
        if (is_ranked()) logits = on_host(lane.stage.device(), outputs);
        const LossSums loss = lane.loss.forward(outputs, lane.stage.wanted(), lane.graph.output_gradient(n));
        const std::lock_guard lock(turn_);
        for (std::size_t i = 0; i < ranks.predicted.size(); ++i)
            sums_.add(taken.labels[i], ranks.predicted[i], ranks.place[i], job_.topk);
        for (std::size_t i = 0; i < logits.size() / 2; ++i)
            (taken.labels[i] == 0 ? scores_.negative : scores_.positive)
                .push_back(logits[2 * i + 1] - logits[2 * i]);
        sums_.add(loss);
        window_sums_[taken.window] = {loss.loss, errors};
    }

    /// Over this rank's windows, in an order that does not depend on who computed them.
    template <class Value>
    double sum_of(const Value& value) const {
        std::vector<double> of_part(windows_.second);
        for (std::size_t window = 0; window < window_sums_.size(); ++window)
            of_part[window % of_part.size()] += value(window_sums_[window]);
        return sum_of_neighbours(of_part);
    }

    const EvaluationJob& job_;
    EvaluationSums sums_;
    ClassScores scores_;
    const std::pair<std::vector<BatchWindow>, std::size_t> windows_;
    std::mutex turn_;
    std::size_t next_ = 0;
    bool stopped_ = false;
    Failure failure_;
    std::vector<WindowSums> window_sums_;
};

void check_ranking_metric(const char* setting, const std::string& metric, std::int64_t classes) {
    if (!is_ranking_metric(metric) || classes == 2) return;
    throw UsageError(
        fmt::format("{} is {}, which is of two classes, but the model has {}", setting, metric, classes),
        "choose val/accuracy, val/balanced_accuracy or val/loss");
}

}  // namespace

std::int64_t topk_of(const TrainConfig& config, std::int64_t classes) {
    constexpr std::int64_t classes_worth_top5 = 10;
    if (config.topk) return *config.topk;
    const auto& early = config.early_stopping;
    const bool asked = config.checkpoint.best == "val/top5" || (early && early->metric == "val/top5");
    return asked || classes >= classes_worth_top5 ? 5 : 0;
}

bool ranking_of(const TrainConfig& config, std::int64_t classes) {
    const auto& early = config.early_stopping;
    return classes == 2 && (config.confusion || is_ranking_metric(config.checkpoint.best) ||
                            (early && is_ranking_metric(early->metric)));
}

void check_metrics(const TrainConfig& config, std::int64_t classes) {
    constexpr std::int64_t most_of_a_matrix = 2048;
    if (config.confusion && classes > most_of_a_matrix)
        throw UsageError(
            fmt::format("train.confusion is true, but the model has {} classes, and a matrix is "
                        "for at most {}",
                        classes, most_of_a_matrix),
            "set train.confusion to false; trainer predict writes what each sample was taken for");
    if (config.topk && *config.topk > classes)
        throw UsageError(fmt::format("train.topk is {}, but the model has {} {}, so that every sample would "
                                     "count as correct",
                                     *config.topk, classes, classes == 1 ? "class" : "classes"),
                         fmt::format("set train.topk to at most {}, to 0 (none) or to auto", classes));
    if (const std::int64_t k = topk_of(config, classes); k > classes)
        throw UsageError(
            fmt::format("{} is val/top5, but the model has {} {}, so that every sample would count "
                        "as correct",
                        config.checkpoint.best == "val/top5" ? "train.checkpoint.best"
                                                             : "train.early_stopping.metric",
                        classes, classes == 1 ? "class" : "classes"),
            "choose val/accuracy or val/loss");
    check_ranking_metric("train.checkpoint.best", config.checkpoint.best, classes);
    if (config.early_stopping)
        check_ranking_metric("train.early_stopping.metric", config.early_stopping->metric, classes);
}

double EvaluationResult::mean_loss() const {
    const double mean = weight > 0 ? loss / weight : 0.0;
    return std::isnan(mean) ? std::abs(mean) : mean;  // the sign of a nan says nothing
}
double EvaluationResult::accuracy() const {
    return part(correct, weight);
}
double EvaluationResult::topk_accuracy() const {
    return part(in_topk, weight);
}

double EvaluationResult::balanced_accuracy() const {
    double recalls = 0;
    std::int64_t present = 0;
    for (std::size_t label = 0; label < of_label.size(); ++label) {
        if (of_label[label] == 0) continue;
        recalls += part(hit_of_label[label], static_cast<double>(of_label[label]));
        ++present;
    }
    return present > 0 ? recalls / static_cast<double>(present) : 0.0;
}

std::optional<EvaluationResult::Detection> EvaluationResult::detection() const {
    if (of_label.size() != 2 || confusion.empty()) return {};
    const std::int64_t false_alarms = confusion[1], misses = confusion[2], hits = confusion[3];
    return Detection{part(hits, static_cast<double>(hits + misses)),
                     part(false_alarms, static_cast<double>(hits + false_alarms))};
}

double EvaluationResult::mae() const {
    return weight > 0 ? errors.absolute / (weight * static_cast<double>(targets)) : 0.0;
}
double EvaluationResult::rmse() const {
    return weight > 0 ? std::sqrt(errors.squared / (weight * static_cast<double>(targets))) : 0.0;
}
double EvaluationResult::distance() const {
    return weight > 0 ? errors.distance / weight : 0.0;
}

double EvaluationResult::metric(const std::string& name) const {
    if (name == "val/loss") return mean_loss();
    if (name == "val/mae") return mae();
    if (name == "val/rmse") return rmse();
    if (name == "val/distance") return distance();
    if (name == "val/top5") return topk_accuracy();
    if (name == "val/balanced_accuracy") return balanced_accuracy();
    if (is_ranking_metric(name) && !scores) return std::numeric_limits<double>::quiet_NaN();
    if (name == "val/auprc") return scores->average_precision();
    if (name == "val/roc_auc") return scores->roc_auc();
    return accuracy();
}

bool improves(const std::string& name, double value, double best, double min_delta) {
    const bool lower_is_better =
        name == "val/loss" || std::ranges::find(regression_metrics, name) != regression_metrics.end();
    return lower_is_better ? best - value > min_delta : value - best > min_delta;
}

EvaluationResult evaluate(const EvaluationJob& job) {
    Pass pass(job);
    if (job.device)
        job.device->run_lanes(static_cast<int>(job.lanes.size()),
                              [&](int number) { pass.compute(job.lanes[static_cast<std::size_t>(number)]); });
    else
        pass.compute(job.lanes.front());
    return pass.result();
}

std::string accuracy_text(const LossSums& sums) {
    return fmt::format("{:.4f} ({} of {:.0f})", part(sums.correct, sums.weight), sums.correct, sums.weight);
}

std::string score_text(const EvaluationResult& result) {
    if (result.loss_only) return fmt::format("{:.0f} samples", result.weight);
    if (result.targets == 0) return "accuracy " + accuracy_text(result);
    const std::string distance =
        result.targets > 1 ? fmt::format(", distance {:.4f}", result.distance()) : std::string();
    return fmt::format("rmse {:.4f}, mae {:.4f}{} ({:.0f} samples)", result.rmse(), result.mae(), distance,
                       result.weight);
}

}  // namespace tutti
