#include "softmax_cross_entropy.hpp"

#include <limits>

#include "../common/softmax_math.hpp"
#include "first_maximum.hpp"
#include "row_groups.hpp"
#include "row_losses.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// rows_done[row] = loss, rows_done[rows + row] = 1 where the first maximum is the label. weighted: −Σₖ
/// w[k]·q[k]·log p[k] = log Σ exp(x − max)·Σₖ w[k]·q[k] − Σₖ w[k]·q[k]·(x[k] − max); else there are no
/// weights.
// probabilities may be logits: neither is RESTRICT, and each element is read and written by one thread.
template <class T, class Group, bool weighted>
__global__ void __launch_bounds__(row_threads)
    softmax_rows(const T* logits, const std::int64_t* RESTRICT labels, std::int64_t rows, int classes,
                 double smoothing, const WeightedTarget target, float* probabilities,
                 double* RESTRICT rows_done) {
    constexpr int threads = row_threads / Group::per_block;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const T* from = logits + row * classes;
        float* to = probabilities + row * classes;
        Candidate best = no_candidate;
        for (int k = Group::member(); k < classes; k += threads)
            best = FirstMaximum{}(best, Candidate{to_float(from[k]), k});
        best = Group::reduce(best, no_candidate, FirstMaximum{});

        const int label = static_cast<int>(labels[row]);
        double sum = 0, label_gap = 0, all_gaps = 0;
        // A loop of its own, as one with both spills registers; and first, as probabilities may be logits.
        if constexpr (weighted)
            for (int k = Group::member(); k < classes; k += threads) {
                const double part = target.at(k, label);
                // Not for 0, where a class whose logit is −∞ costs nothing.
                if (part > 0) all_gaps += part * static_cast<double>(to_float(from[k]) - best.logit);
            }
        for (int k = Group::member(); k < classes; k += threads) {
            const float gap = to_float(from[k]) - best.logit;
            if constexpr (!weighted) {
                if (k == label) label_gap = static_cast<double>(gap);
                if (smoothing > 0) all_gaps += static_cast<double>(gap);
            }
            const float e = expf(gap);
            to[k] = e;
            sum += static_cast<double>(e);
        }
        sum = Group::sum(sum);
        if constexpr (!weighted) label_gap = Group::sum(label_gap);
        if (weighted || smoothing > 0) all_gaps = Group::sum(all_gaps);
        const double inverse = 1 / sum;
        for (int k = Group::member(); k < classes; k += threads)
            to[k] = static_cast<float>(static_cast<double>(to[k]) * inverse);
        if (Group::member() == 0) {
            if constexpr (weighted)
                rows_done[row] = log(sum) * target.total(label) - all_gaps;
            else
                rows_done[row] =
                    log(sum) - smoothed_gap(label_gap, all_gaps, smoothing, static_cast<double>(classes));
            rows_done[rows + row] = best.place == label ? 1 : 0;
        }
    }
}

// dlogits may be probabilities: neither is RESTRICT.
template <class T, int N, class Group>
__global__ void __launch_bounds__(row_threads)
    differentiate_rows(const float* probabilities, const std::int64_t* RESTRICT labels,
                       const double* RESTRICT scale, std::int64_t rows, int classes, double smoothing,
                       T* dlogits) {
    constexpr int step = row_threads / Group::per_block * N;
    const SoftmaxGradient<float> gradient(*scale, smoothing, static_cast<double>(classes));
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const int label = static_cast<int>(labels[row]);
        for (int k = Group::member() * N; k < classes; k += step) {
            float values[N];
            load<N>(probabilities + row * classes + k, values);
#pragma unroll
            for (int i = 0; i < N; ++i) values[i] = gradient(values[i], k + i == label);
            store<N>(dlogits + row * classes + k, values);
        }
    }
}

/// The same where classes have weights.
template <class T, class Group>
__global__ void __launch_bounds__(row_threads)
    differentiate_weighted_rows(const float* probabilities, const std::int64_t* RESTRICT labels,
                                const double* RESTRICT scale, std::int64_t rows, int classes,
                                const WeightedTarget target, T* dlogits) {
    constexpr int threads = row_threads / Group::per_block;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const int label = static_cast<int>(labels[row]);
        const WeightedGradient<float> gradient(*scale, target.total(label));
        for (int k = Group::member(); k < classes; k += threads) {
            const float value[1] = {gradient(probabilities[row * classes + k], target.at(k, label))};
            store<1>(dlogits + row * classes + k, value);
        }
    }
}

}  // namespace

void softmax_cross_entropy_forward(const TensorView& logits, const TensorView& labels,
                                   const TensorView& workspace, const TensorView& probabilities,
                                   const TensorView& sums, const CrossEntropyTarget& target, Stream stream) {
    const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
    assert(probabilities.count() == rows * classes && labels.count() == rows && sums.count() == 3);
    assert(workspace.count() >= 2 * rows && classes <= std::numeric_limits<int>::max());
    double* rows_done = workspace.as<double>();
    with_storage(logits.dtype, [&]<class T>(Storage<T>) {
        with_row_group(classes, [&]<class Group>(Group) {
            launch(
                "softmax_cross_entropy_forward",
                target.class_weights.defined() ? softmax_rows<T, Group, true> : softmax_rows<T, Group, false>,
                row_geometry(rows, Group::per_block), stream, elements<const T>(logits),
                labels.as<std::int64_t>(), rows, static_cast<int>(classes), target.label_smoothing,
                WeightedTarget(target, classes), probabilities.as<float>(), rows_done);
        });
    });
    add_row_losses<true>("softmax_cross_entropy_forward sum", rows_done, rows, sums.as<double>(), stream);
}

void softmax_cross_entropy_backward(const TensorView& probabilities, const TensorView& labels,
                                    const TensorView& scale, const TensorView& dlogits,
                                    const CrossEntropyTarget& target, Stream stream) {
    const std::int64_t rows = probabilities.shape[0], classes = probabilities.shape[1];
    assert(dlogits.count() == rows * classes && labels.count() == rows && scale.count() == 1);
    with_storage(dlogits.dtype, [&]<class T>(Storage<T>) {
        if (target.class_weights.defined()) {
            with_row_group(classes, [&]<class Group>(Group) {
                launch("softmax_cross_entropy_backward weighted", differentiate_weighted_rows<T, Group>,
                       row_geometry(rows, Group::per_block), stream, probabilities.as<float>(),
                       labels.as<std::int64_t>(), scale.as<double>(), rows, static_cast<int>(classes),
                       WeightedTarget(target, classes), elements<T>(dlogits));
            });
            return;
        }
        const bool wide = whole_vectors<T>(classes, probabilities.data, dlogits.data);
        with_lanes<T>(wide, [&]<int N>(Lanes<N>) {
            with_row_group(classes, [&]<class Group>(Group) {
                launch("softmax_cross_entropy_backward", differentiate_rows<T, N, Group>,
                       row_geometry(rows, Group::per_block), stream, probabilities.as<float>(),
                       labels.as<std::int64_t>(), scale.as<double>(), rows, static_cast<int>(classes),
                       target.label_smoothing, elements<T>(dlogits));
            });
        });
    });
}

}  // namespace tutti::cuda
