#pragma once
// What an evaluation has found: sums over a data set, and the metrics that follow from them.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tutti/device/location_loss.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/location.hpp"
#include "tutti/train/ranking_metrics.hpp"
#include "tutti/train/segments.hpp"

namespace tutti {

/// Sums over samples of what their outputs lack where these are compared with targets one by one: of the d =
/// output − target of each sample's K targets.
struct TargetErrors {
    double absolute = 0;  ///< Σ |d|
    double squared = 0;   ///< Σ d²
    double distance = 0;  ///< Σ over samples of √(Σₖ d²): of positions, how far they are off
};

/// Sums of a locator, over samples and, where they are of places, over those in which the thing is.
struct LocationSums {
    double presence_loss = 0;  ///< Σ presence_loss (train/location.hpp)
    double distance = 0;       ///< Σ pixels between the place that is predicted and the true one
    double heat_map_loss = 0;  ///< Σ heat_map_loss
    std::array<std::int64_t, location_radii.size()> within{};  ///< places predicted to within location_radii
};

/// Evaluations count the places that are predicted to within these many kilometres.
inline constexpr std::array<int, 4> earth_radii{25, 50, 100, 200};

/// Sums over the places that are known and predicted where the picture shows the earth.
struct EarthSums {
    double km = 0;             ///< Σ kilometres between the place that is predicted and the true one
    std::int64_t samples = 0;  ///< of how many
    std::array<std::int64_t, earth_radii.size()> within{};  ///< predicted to within earth_radii
    double median = std::numeric_limits<double>::quiet_NaN();
};

/// Sums of a model that predicts segments, over samples.
struct SegmentSums {
    std::array<double, segment_ious.size()>
        precision{};                 ///< Σ segment_precisions of those that have segments
    std::int64_t with_segments = 0;  ///< samples that have any
    std::int64_t predicted = 0;      ///< segments, of all samples
};

/// Sums over the whole data set, the same on every rank. Counts are exact below 2⁵³.
struct EvaluationResult : LossSums {
    std::int64_t unreadable = 0;             ///< samples that were skipped, and count nowhere else
    std::int64_t not_finite = 0;             ///< samples with outputs that are not, which are never right
    std::int64_t topk = 0;                   ///< the k that was asked for
    std::int64_t in_topk = 0;                ///< samples whose label is among the k greatest logits
    std::vector<std::int64_t> of_label;      ///< [K]: samples of each class
    std::vector<std::int64_t> hit_of_label;  ///< [K]: those of them that were predicted right
    std::vector<std::int64_t> confusion;     ///< [K, K]: [label][prediction], of finite ones, or empty
    std::optional<RankedScores> scores;      ///< of all samples, on every rank, where they were asked for
    bool loss_only = false;                  ///< as it was asked for: all counts here are 0
    std::int64_t targets = 0;                ///< K of data with targets, of which all counts above are 0
    TargetErrors errors;                     ///< of data with targets
    /// Of a locator, whose classes above are 0, absent, and 1, present, with their confusion.
    std::optional<LocationSums> location = {};
    /// Where the earth's places were given.
    std::optional<EarthSums> earth = {};
    /// Of a locator, and where `earth` is: pixels; NaN where there is no place, or one of them is NaN.
    double median_distance = std::numeric_limits<double>::quiet_NaN();
    /// Of a model that predicts segments, whose classes above are those of seconds: 0, outside, and 1,
    /// inside, with their confusion.
    std::optional<SegmentSums> segments = {};
    bool stopped = false;  ///< by a signal: the sums are of a part of the data

    /// 0 without samples.
    double mean_loss() const;
    double accuracy() const;
    double topk_accuracy() const;
    /// Mean recall over the classes that have samples (sklearn.metrics.balanced_accuracy_score).
    double balanced_accuracy() const;
    /// Of class 1, where a confusion was counted, against all others: of its samples the fraction that was
    /// predicted so (recall), of those predicted so the fraction that is not (1 − precision; both are 0 where
    /// there are none), and the harmonic mean of recall and precision. In forecasting:
    /// probability of detection and false alarm ratio (Wilks, Statistical Methods in the Atmospheric
    /// Sciences, section "Nonprobabilistic Forecasts for Discrete Predictands").
    struct Detection {
        double probability, false_alarm_ratio, f1;
    };
    std::optional<Detection> detection() const;
    /// Of data with targets, in their units: mean absolute and root mean squared difference over samples and
    /// targets, and mean distance of the outputs of a sample from its targets. 0 without samples.
    double mae() const;
    double rmse() const;
    /// Of a locator the mean over samples in which the thing is; without any NaN.
    double distance() const;
    /// Of a locator the two parts of the mean loss, without their weights.
    double heat_map_loss() const;
    double presence_loss() const;
    /// The part of the present ones that is predicted to within location_radii[i] pixels; without any NaN.
    double within(std::size_t radius) const;
    /// Where `earth` is: mean kilometres over its samples, and the part of these within earth_radii[i]; NaN
    /// where there is none.
    double km() const;
    double within_km(std::size_t radius) const;
    /// Of a model that predicts segments: the mean over samples that have any of the part of those predicted
    /// that is right from an IoU of segment_ious[i] on, and the mean of these (AtIoU); NaN where no sample
    /// has any.
    double segment_precision(std::size_t i) const;
    double atiou() const;
    /// By a name of `validation_metrics` (base/config.hpp) or `ranking_metrics`; of these NaN without scores.
    double metric(const std::string& name) const;

  private:
    double of_present(double sum) const;
};

/// The counts of a confusion matrix, [label][prediction]; none where nothing was counted. Pure.
std::vector<std::vector<std::int64_t>> confusion_rows(const EvaluationResult& result);

/// Whether `value` of the metric `name` is better than `best` by more than `min_delta`. NaN never is. Pure.
bool improves(const std::string& name, double value, double best, double min_delta = 0);

/// What to warn of where outputs of so many samples are not finite; nothing where there are none.
std::string doubt_about_outputs(std::int64_t not_finite, std::int64_t samples);
/// "0.8990 (8990 of 10000)"
std::string accuracy_text(const LossSums& sums);
/// "accuracy 0.8990 (8990 of 10000)", or of data with targets "rmse 1.2345, mae 0.9876 (10000 samples)", with
/// the distance between them where a sample has several; of a locator both, "accuracy 0.9912 (9912 of 10000),
/// distance 3.21"; with kilometres behind the distance where they are known; of segments "AtIoU 0.1234 (25 of
/// 30 samples have segments)"; of the loss alone "10000 samples".
std::string score_text(const EvaluationResult& result);

}  // namespace tutti
