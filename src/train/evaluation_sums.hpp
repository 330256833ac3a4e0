#pragma once
// What an evaluation counts, on its way from the samples of the ranks to the result of all.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sample_metrics.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/train/evaluation.hpp"

namespace tutti {

/// The counts of one rank, and after all_reduce() those of all: doubles, so that one all-reduce carries the
/// loss, too.
class EvaluationSums {
  public:
    /// classes: 0 where there are none.
    EvaluationSums(std::size_t classes, bool confusion);

    /// All but the loss, which is summed in its order.
    void add(const LossSums& sums);
    /// Of one sample. place: of the label among the classes, by their logits.
    void add(std::int64_t label, std::int64_t predicted, std::int64_t place, std::int64_t topk);
    /// Of one sample, by label.
    void add_seconds(const std::array<SegmentMetrics::Seconds, 2>& seconds);
    /// Of a place that is off by `distance` pixels.
    void add_place(double distance);
    /// Of one whose kilometres are known.
    void add_kilometres(double km);
    /// Of a sample with segments or without, and how many were predicted in it.
    void add_segments(bool has_any, std::size_t predicted);
    void add_skipped(std::int64_t samples);
    /// Of a sample whose outputs are not finite.
    void add_not_finite();

    /// What a rank brings beside its counts.
    struct OfRank {
        double loss;
        MetricSums metrics;
        bool failed, stopped;
    };
    /// True when a rank failed. Collective.
    bool all_reduce(Communicator& communicator, const OfRank& mine, bool along_tree);

    EvaluationResult result(const EvaluationJob& job, std::int64_t topk) const;

  private:
    // Places in values_, behind which come the samples and the hits of each class, and the confusion matrix.
    enum Place : std::size_t {
        loss,
        weight,
        correct,
        failed,
        in_topk,
        skipped,
        first_metric,
        stopped = first_metric + MetricSums().size(),
        not_finite,
        first_radius,  // of places; of segments instead
        with_segments = first_radius,
        predicted_segments,
        on_earth = first_radius + location_radii.size(),
        first_earth_radius,
        header = first_earth_radius + earth_radii.size()
    };
    std::size_t hits() const { return header + classes_; }
    std::size_t matrix() const { return header + 2 * classes_; }

    std::int64_t count(std::size_t place) const { return static_cast<std::int64_t>(values_[place]); }
    std::vector<std::int64_t> counts(std::size_t begin, std::size_t size) const;
    double metric(std::size_t place) const { return values_[first_metric + place]; }
    void put_metrics(const EvaluationJob& job, EvaluationResult& result) const;
    void put_kilometres(const EvaluationJob& job, EvaluationResult& result) const;

    std::size_t classes_;
    std::vector<double> values_;
};

}  // namespace tutti
