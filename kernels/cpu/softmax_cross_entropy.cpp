#include <cmath>
#include <type_traits>

#include "../common/softmax_math.hpp"
#include "../common/vector_math.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

struct RowResult {
    double loss;
    bool correct;
};

/// out[k] = exp(x[k] − maximum); out may be x. In fp32 0 below e^−87, whose sum with others is theirs.
template <class T>
void exponentials(const T* x, std::int64_t count, T maximum, T* out) {
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k) {
        const T gap = x[k] - maximum, e = exp_nonpositive(gap);
        if constexpr (std::is_same_v<T, float>)
            out[k] = gap < -87.0f ? 0.0f : e;
        else
            out[k] = e;
    }
}

/// p_k = exp(x_k − max) / Σ exp(x_j − max); −log p_k = log Σ exp(x_j − max) − (x_k − max), which stays finite
/// where p_k underflows. `logits` may be `probabilities`.
template <class T>
RowResult softmax_row(const T* logits, std::int64_t classes, std::int64_t label, T* probabilities,
                      double label_smoothing, const WeightedTarget& weighted) {
    std::int64_t first_maximum = 0;
    for (std::int64_t k = 1; k < classes; ++k)
        if (exceeds(logits[k], logits[first_maximum])) first_maximum = k;
    const T maximum = logits[first_maximum];
    double target_gap = static_cast<double>(logits[label]) - static_cast<double>(maximum), total = 1;
    if (weighted.weights) {
        // −Σₖ w[k]·q[k]·log p[k] = log Σ exp(x − max)·Σₖ w[k]·q[k] − Σₖ w[k]·q[k]·(x[k] − max)
        total = weighted.total(label);
        target_gap = 0;
        for (std::int64_t k = 0; k < classes; ++k) {
            const double part = weighted.at(k, label);
            // Not for 0, where a class whose logit is −∞ costs nothing.
            if (part > 0)
                target_gap += part * (static_cast<double>(logits[k]) - static_cast<double>(maximum));
        }
    } else {
        double gaps = 0;
        if (label_smoothing > 0)
            for (std::int64_t k = 0; k < classes; ++k)
                gaps += static_cast<double>(logits[k]) - static_cast<double>(maximum);
        target_gap = smoothed_gap(target_gap, gaps, label_smoothing, static_cast<double>(classes));
    }
    exponentials(logits, classes, maximum, probabilities);
    double sum = 0;
    for (std::int64_t k = 0; k < classes; ++k) sum += static_cast<double>(probabilities[k]);
    const double factor = 1 / sum;
#pragma omp simd
    for (std::int64_t k = 0; k < classes; ++k)
        probabilities[k] = static_cast<T>(static_cast<double>(probabilities[k]) * factor);
    return {total * std::log(sum) - target_gap, first_maximum == label};
}

}  // namespace

template <class T>
void EigenOps<T>::softmax_cross_entropy_forward(const TensorView& logits, const TensorView& labels,
                                                const TensorView& probabilities, const TensorView& sums,
                                                const CrossEntropyTarget& target) {
    const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
    assert(probabilities.count() == rows * classes && labels.count() == rows && sums.count() == 3);
    const T* in = logits.as<T>();
    const std::int64_t* label = labels.as<std::int64_t>();
    T* out = probabilities.as<T>();
    const WeightedTarget weights(target, classes);
    auto* results = workspace_->reserve_elements<RowResult>(static_cast<std::size_t>(rows));
    for_ranges(
        rows,
        [=, smoothing = target.label_smoothing](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                assert(label[row] >= 0 && label[row] < classes);
                results[row] = softmax_row(in + row * classes, classes, label[row], out + row * classes,
                                           smoothing, weights);
            }
        },
        classes);
    double loss = 0;
    std::int64_t correct = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
        loss += results[row].loss;
        correct += results[row].correct;
    }
    double* total = sums.as<double>();
    total[0] = loss;
    total[1] = static_cast<double>(rows);
    total[2] = static_cast<double>(correct);
}

template <class T>
void EigenOps<T>::softmax_cross_entropy_backward(const TensorView& probabilities, const TensorView& labels,
                                                 double scale, const TensorView& dlogits,
                                                 const CrossEntropyTarget& target) {
    const std::int64_t rows = probabilities.shape[0], classes = probabilities.shape[1];
    assert(dlogits.count() == rows * classes && labels.count() == rows);
    const T* p = probabilities.as<T>();
    const std::int64_t* label = labels.as<std::int64_t>();
    T* out = dlogits.as<T>();
    if (target.class_weights.defined())
        return for_ranges(
            rows,
            [=, weights = WeightedTarget(target, classes)](std::int64_t begin, std::int64_t end) {
                for (std::int64_t row = begin; row < end; ++row) {
                    assert(label[row] >= 0 && label[row] < classes);
                    const WeightedGradient<T> gradient(scale, weights.total(label[row]));
                    for (std::int64_t k = 0; k < classes; ++k)
                        out[row * classes + k] = gradient(p[row * classes + k], weights.at(k, label[row]));
                }
            },
            classes);
    const SoftmaxGradient<T> gradient(scale, target.label_smoothing, static_cast<double>(classes));
    for_ranges(
        rows,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                assert(label[row] >= 0 && label[row] < classes);
                const T* from = p + row * classes;
                T* to = out + row * classes;
                // Taken first: dlogits may be probabilities.
                const T at_label = gradient(from[label[row]], true);
#pragma omp simd
                for (std::int64_t k = 0; k < classes; ++k) to[k] = gradient(from[k], false);
                to[label[row]] = at_label;
            }
        },
        classes);
}

template void EigenOps<float>::softmax_cross_entropy_forward(const TensorView&, const TensorView&,
                                                             const TensorView&, const TensorView&,
                                                             const CrossEntropyTarget&);
template void EigenOps<double>::softmax_cross_entropy_forward(const TensorView&, const TensorView&,
                                                              const TensorView&, const TensorView&,
                                                              const CrossEntropyTarget&);
template void EigenOps<float>::softmax_cross_entropy_backward(const TensorView&, const TensorView&, double,
                                                              const TensorView&, const CrossEntropyTarget&);
template void EigenOps<double>::softmax_cross_entropy_backward(const TensorView&, const TensorView&, double,
                                                               const TensorView&, const CrossEntropyTarget&);

}  // namespace tutti
