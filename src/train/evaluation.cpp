#include "tutti/train/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "evaluation_sums.hpp"
#include "host_values.hpp"
#include "sample_metrics.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/spread.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/train/virtual_shards.hpp"
#include "value_gathering.hpp"

namespace tutti {
namespace {

/// What one rank has computed of two classes, in any order.
struct ClassScores {
    std::vector<double> negative, positive;  ///< of class 0, of class 1
};

struct WindowSums {
    double loss = 0;
    MetricSums metrics{};
};

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
        : job_(job),
          sums_(classes(), job.metrics.confusion || job.metrics.location || job.metrics.segments),
          windows_(windows_of(job)) {
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
        MetricSums metrics;
        for (std::size_t i = 0; i < metrics.size(); ++i)
            metrics[i] = sum_of([i](const WindowSums& sums) { return sums.metrics[i]; });
        if (sums_.all_reduce(job_.communicator, {loss, metrics, failure_.code != ExitCode::done, stopped_},
                             job_.virtual_shards > 0))
            agree(job_.communicator, failure_, "evaluation");
        const bool has_labels = classes() > 0 && !job_.metrics.location && !job_.metrics.segments;
        EvaluationResult result = sums_.result(job_, has_labels ? job_.metrics.topk : 0);
        result.loss_only = job_.metrics.loss_only;
        // On all ranks or none: they have agreed by the sums.
        if (!result.stopped) gather_into(result);
        result.targets = has_targets() ? job_.dataset.info().targets : 0;
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
        std::vector<std::int64_t> labels, positions, indices;
        std::vector<float> targets;
    };

    /// What sums do not tell. Collective.
    void gather_into(EvaluationResult& result) {
        const auto gathered = [this](std::vector<double>& mine) {
            return gather_values(job_.communicator, std::move(mine));
        };
        if (is_ranked()) {
            std::vector<double> negative = gathered(scores_.negative);
            result.scores.emplace(std::move(negative), gathered(scores_.positive));
        }
        const auto median_of = [&](std::vector<double>& mine) {
            std::vector<double> all = gathered(mine);
            const bool defined =
                !all.empty() && std::ranges::none_of(all, [](double value) { return std::isnan(value); });
            return defined ? median(std::move(all)) : std::numeric_limits<double>::quiet_NaN();
        };
        if (has_places()) result.median_distance = median_of(distances_);
        if (result.earth) result.earth->median = median_of(kilometres_);
    }

    /// Targets are places in an image.
    bool has_places() const { return job_.metrics.location || job_.geography; }

    /// km: their sum. The lock is held, as in the next three.
    void add_place(double distance, std::optional<double> kilometres, double& km) {
        distances_.push_back(distance);
        if (!kilometres) return;
        km += *kilometres;
        sums_.add_kilometres(*kilometres);
        kilometres_.push_back(*kilometres);
    }
    void add(const LocationMetrics& sample, MetricSums& metrics) {
        sums_.add(sample.present ? 1 : 0, sample.predicted, 0, 0);
        if (!sample.is_finite()) sums_.add_not_finite();
        add_score(sample.present, sample.score);
        metrics[location_sums::presence_loss] += sample.presence_loss;
        metrics[location_sums::heat_map_loss] += sample.heat_map_loss;
        if (!sample.present) return;
        metrics[location_sums::distance] += sample.distance;
        sums_.add_place(sample.distance);
        add_place(sample.distance, sample.km, metrics[location_sums::km]);
    }
    void add(const NumberMetrics& sample, MetricSums& metrics) {
        if (!sample.is_finite()) sums_.add_not_finite();
        metrics[number_sums::absolute] += sample.errors.absolute;
        metrics[number_sums::squared] += sample.errors.squared;
        metrics[number_sums::distance] += sample.errors.distance;
        if (has_places()) add_place(sample.errors.distance, sample.km, metrics[number_sums::km]);
    }
    void add(const SegmentMetrics& sample, MetricSums& metrics) {
        if (!sample.is_finite) sums_.add_not_finite();
        sums_.add_seconds(sample.seconds);
        sums_.add_segments(sample.has_any, sample.predicted);
        for (std::size_t i = 0; sample.has_any && i < metrics.size(); ++i) metrics[i] += sample.precisions[i];
    }

    /// Compared with the outputs one by one.
    bool has_targets() const {
        return job_.dataset.info().targets > 0 && !job_.metrics.loss_only && !job_.metrics.location &&
               !job_.metrics.segments;
    }

    std::size_t classes() const {
        if (has_targets() || job_.metrics.loss_only) return 0;
        if (job_.metrics.location || job_.metrics.segments) return 2;
        return static_cast<std::size_t>(job_.lanes.front().graph.output_shape().count());
    }

    bool is_ranked() const { return job_.metrics.ranking && classes() == 2; }
    void add_score(bool positive, double score) {
        if (is_ranked()) (positive ? scores_.positive : scores_.negative).push_back(score);
    }

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
            taken.indices.assign(batch->indices.begin(), batch->indices.end());
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
        std::vector<LocationMetrics> locations;
        std::vector<SegmentMetrics> sequences;
        std::vector<NumberMetrics> numbers;
        std::vector<double> logits;
        const auto of_samples = [&](auto& samples, const auto& metrics) {
            metrics_of_samples(lane, outputs, taken, samples, metrics);
        };
        if (job_.metrics.location)
            of_samples(locations, [&](auto given, auto targets, std::int64_t sample) {
                return metrics_of(given, lane.graph.output_shape(), *job_.metrics.location, targets,
                                  {job_.geography, sample});
            });
        else if (job_.metrics.segments)
            of_samples(sequences, [&](auto given, auto targets, std::int64_t) {
                return metrics_of(given, *job_.metrics.segments, targets);
            });
        else if (has_targets())
            of_samples(numbers, [&](auto given, auto targets, std::int64_t sample) {
                return metrics_of(given, targets, {job_.geography, sample});
            });
        else if (!job_.metrics.loss_only)
            ranks = lane.stage.rank_labels(outputs);
        if (is_ranked() && !job_.metrics.location) logits = on_host(lane.stage.device(), outputs);
        const LossSums loss = lane.loss.forward(outputs, lane.stage.wanted(), lane.graph.output_gradient(n));
        const std::lock_guard lock(turn_);
        for (std::size_t i = 0; i < ranks.predicted.size(); ++i) {
            sums_.add(taken.labels[i], ranks.predicted[i], ranks.place[i], job_.metrics.topk);
            if (ranks.predicted[i] == no_class) sums_.add_not_finite();
        }
        for (std::size_t i = 0; i < logits.size() / 2; ++i)
            add_score(taken.labels[i] != 0, logits[2 * i + 1] - logits[2 * i]);
        MetricSums metrics{};
        for (const LocationMetrics& sample : locations) add(sample, metrics);
        for (const NumberMetrics& sample : numbers) add(sample, metrics);
        for (const SegmentMetrics& sample : sequences) add(sample, metrics);
        sums_.add(loss);
        window_sums_[taken.window] = {loss.loss, metrics};
    }

    /// Of each sample metrics(its outputs, its targets, its index).
    template <class Metrics, class Of>
    void metrics_of_samples(const EvaluationLane& lane, const TensorView& outputs, const Taken& taken,
                            std::vector<Metrics>& samples, const Of& metrics) const {
        const std::vector<double> all = on_host(lane.stage.device(), outputs);
        const auto width = static_cast<std::size_t>(lane.graph.output_shape().count());
        const auto targets = static_cast<std::size_t>(job_.dataset.info().targets);
        for (std::size_t n = 0; n < taken.indices.size(); ++n)
            samples.push_back(metrics(std::span<const double>(all).subspan(n * width, width),
                                      std::span(taken.targets).subspan(n * targets, targets),
                                      taken.indices[n]));
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
    std::vector<double> distances_, kilometres_;  ///< of the places of this rank, in any order
    const std::pair<std::vector<BatchWindow>, std::size_t> windows_;
    std::mutex turn_;
    std::size_t next_ = 0;
    bool stopped_ = false;
    Failure failure_;
    std::vector<WindowSums> window_sums_;
};

}  // namespace

EvaluationResult evaluate(const EvaluationJob& job) {
    Pass pass(job);
    if (job.device)
        job.device->run_lanes(static_cast<int>(job.lanes.size()),
                              [&](int number) { pass.compute(job.lanes[static_cast<std::size_t>(number)]); });
    else
        pass.compute(job.lanes.front());
    return pass.result();
}

}  // namespace tutti
