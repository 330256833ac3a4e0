#pragma once
// How well a score orders the samples of two classes: metrics that need no threshold, and their curves.

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

/// What is taken for class 1 where that is every score of `score` and more.
struct ThresholdCounts {
    double score = 0;
    std::int64_t true_positives = 0, false_positives = 0;
};

/// The scores of all samples, by label, sorted: metrics depend on which scores there are, and not on the
/// order in which they came. A score is the logit of class 1 less that of class 0: it orders samples as the
/// probability of class 1 does (softmax), and still tells apart those whose probabilities round to 1. −0 and
/// 0 are one score; infinities are scores. 8 B per sample. Pure.
class RankedScores {
  public:
    RankedScores() = default;
    /// negative, positive: of the samples of class 0 and class 1.
    RankedScores(std::vector<double> negative, std::vector<double> positive);

    /// Both classes have samples, and no score is NaN. Else there is neither metric nor curve.
    bool defined() const;
    /// Σₙ (Rₙ − Rₙ₋₁) Pₙ over the distinct scores from the highest on, with recall R and precision P of what
    /// reaches them (scikit-learn, average_precision_score). NaN where it is not defined.
    double average_precision() const;
    /// Area under the ROC curve by trapezoids between distinct scores, which is the part of the pairs of one
    /// sample of each class where that of class 1 has the higher score, equal ones counted half: U/(n₁n₀) of
    /// Mann and Whitney (Hanley and McNeil, Radiology 143, 1982). Counted in integers, exact for up to 2⁶²
    /// pairs. NaN where it is not defined.
    double roc_auc() const;
    /// From the highest score to the lowest; of defined() ones.
    std::vector<ThresholdCounts> thresholds() const;

  private:
    /// consume: void(const ThresholdCounts&)
    template <class Consumer>
    void for_each_threshold(const Consumer& consume) const;

    bool has_nan_ = false;
    std::vector<double> negative_, positive_;
};

/// 1/(1 + e⁻ˢ): the probability of class 1 (softmax of two logits whose difference is s).
double probability_of(double score);

/// What scores are: differences of logits, or what a threshold is compared with itself.
enum class ScoreScale { logit, itself };

/// The curves as CSV files, one row per distinct score; numbers have the fewest digits that give the same
/// bits back. Thresholds are probabilities, or scores themselves: where scores differ and these round to the
/// same, rows share one.
/// Of defined() scores. "threshold,precision,recall", as scikit-learn's precision_recall_curve has them:
/// thresholds ascend, and the last row is its end at precision 1 and recall 0, whose threshold is inf.
std::string precision_recall_csv(const RankedScores& scores, ScoreScale scale = ScoreScale::logit);
/// "threshold,fpr,tpr", as its roc_curve with drop_intermediate=False: thresholds descend from inf, which
/// nothing reaches.
std::string roc_csv(const RankedScores& scores, ScoreScale scale = ScoreScale::logit);

}  // namespace tutti
