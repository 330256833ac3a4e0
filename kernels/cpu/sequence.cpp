#include <algorithm>

#include "../common/counts.hpp"
#include "../common/segment_math.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

/// weight divided by a count, of nothing 0.
double share_of(double weight, std::int64_t count) {
    return count > 0 ? weight / static_cast<double>(count) : 0;
}

/// Of one sample: its loss, and the share of its existing seconds that z says rightly.
struct SampleResult {
    double loss, right;
};

/// outputs and gradients: [seconds, 4], which may be the same; wanted: [seconds, 2].
template <class T>
SampleResult segment_loss(const T* outputs, const float* wanted, std::int64_t seconds, const SegmentLoss& of,
                          T* gradients) {
    std::int64_t existing = 0, inside = 0, right = 0;
    for (std::int64_t t = 0; t < seconds; ++t) {
        if (outputs[4 * t + 3] == 0) continue;
        ++existing;
        if (is_inside(wanted[2 * t])) ++inside;
    }
    const double of_class = share_of(of.class_weight, existing),
                 of_offsets = share_of(of.offset_weight, inside);
    double loss = 0;
    for (std::int64_t t = 0; t < seconds; ++t) {
        const T* const out = outputs + 4 * t;
        const float* const want = wanted + 2 * t;
        FocalLoss focal{};
        OffsetLoss offsets{};
        if (out[3] != 0) {
            const auto logit = static_cast<double>(out[0]);
            const bool says_inside = logit > 0, inside_here = is_inside(want[0]);
            focal = focal_loss(logit, inside_here, of.alpha, of.gamma);
            if (says_inside == inside_here) ++right;
            if (inside_here)
                offsets = offset_loss(static_cast<double>(out[1]), static_cast<double>(out[2]),
                                      static_cast<double>(want[0]), static_cast<double>(want[1]));
        }
        loss += of_class * focal.loss + of_offsets * offsets.loss;
        // Over what was read of this second, where gradients are outputs.
        T* const gradient = gradients + 4 * t;
        gradient[0] = static_cast<T>(of_class * focal.slope);
        gradient[1] = static_cast<T>(of_offsets * offsets.left_slope);
        gradient[2] = static_cast<T>(of_offsets * offsets.right_slope);
        gradient[3] = 0;
    }
    return {loss, share_of(static_cast<double>(right), existing)};
}

}  // namespace

template <class T>
void EigenOps<T>::copy_columns(const TensorView& x, const ColumnRange& columns, const TensorView& y) {
    const std::int64_t x_row = x.shape[x.shape.rank() - 1], y_row = y.shape[y.shape.rank() - 1];
    const std::int64_t rows = rows_of(y);
    assert(rows_of(x) == rows && columns.count >= 0);
    assert(columns.from >= 0 && columns.from + columns.count <= x_row);
    assert(columns.to >= 0 && columns.to + columns.count <= y_row);
    const T* in = x.as<T>() + columns.from;
    T* out = y.as<T>() + columns.to;
    for_ranges(
        rows,
        [=, count = columns.count](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row)
                std::copy_n(in + row * x_row, count, out + row * y_row);
        },
        columns.count);
}

template <class T>
void EigenOps<T>::segment_loss_forward(const TensorView& outputs, const TensorView& wanted,
                                       const SegmentLoss& loss, const TensorView& gradients,
                                       const TensorView& sums) {
    const std::int64_t samples = outputs.shape[0], seconds = outputs.shape[1];
    assert(outputs.shape.rank() == 3 && outputs.shape[2] == 4 && gradients.count() == outputs.count());
    assert(wanted.count() == samples * seconds * 2 && sums.count() == 3);
    // To be added in the samples' order.
    auto* const results = workspace_->reserve_elements<SampleResult>(static_cast<std::size_t>(samples));
    for_ranges(
        samples,
        [=, in = outputs.as<T>(), want = wanted.as<float>(), out = gradients.as<T>()](std::int64_t begin,
                                                                                      std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n)
                results[n] = segment_loss(in + 4 * n * seconds, want + 2 * n * seconds, seconds, loss,
                                          out + 4 * n * seconds);
        },
        64 * seconds);  // exponentials and powers
    double* total = sums.as<double>();
    total[0] = total[2] = 0;
    total[1] = static_cast<double>(samples);
    for (std::int64_t n = 0; n < samples; ++n) {
        total[0] += results[n].loss;
        total[2] += results[n].right;
    }
}

template <class T>
void EigenOps<T>::segment_loss_backward(const TensorView& gradients, double scale,
                                        const TensorView& doutputs) {
    assert(doutputs.count() == gradients.count());
    for_ranges(gradients.count(), [in = gradients.as<T>(), out = doutputs.as<T>(),
                                   factor = static_cast<T>(scale)](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) out[i] = factor * in[i];
    });
}

#define TUTTI_INSTANTIATE(T)                                                                             \
    template void EigenOps<T>::copy_columns(const TensorView&, const ColumnRange&, const TensorView&);   \
    template void EigenOps<T>::segment_loss_forward(                                                     \
        const TensorView&, const TensorView&, const SegmentLoss&, const TensorView&, const TensorView&); \
    template void EigenOps<T>::segment_loss_backward(const TensorView&, double, const TensorView&)
TUTTI_INSTANTIATE(float);
TUTTI_INSTANTIATE(double);
#undef TUTTI_INSTANTIATE

}  // namespace tutti
