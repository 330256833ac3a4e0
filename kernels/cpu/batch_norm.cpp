// Batch normalisation in two passes over x forward (moments, then x̂) and two over x and dy backward (sums,
// then dx), also with a ReLU behind: whether a value passed it is computed again from x. Channels are side by
// side, so every loop over them is a vector loop (batch_norm_rows.hpp); sums are in double, those of some
// rows of bf16 in fp32.

#include <algorithm>
#include <cmath>
#include <vector>

#include "../common/batch_norm_math.hpp"
#include "batch_norm_rows.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Rows whose sums are in fp32, where values are bf16.
constexpr std::int64_t short_rows = 64;

template <class T>
class CpuBatchNorm final : public BatchNormOp {
  public:
    CpuBatchNorm(const BatchNormShape& shape, std::shared_ptr<Workspace> workspace)
        : shape_(shape),
          channels_(shape.channels),
          workspace_(std::move(workspace)),
          mean_(size()),
          scale_(size()),
          offset_(size()),
          slope_(size()),
          short_mean_(size()) {}

    void moments(const TensorView& x, const TensorView& shift, const TensorView& moments) override {
        const std::int64_t rows = rows_of(x);
        assert(moments.count() == 1 + 2 * channels_ && shift.count() == channels_);
        const T* guess = shift.as<T>();
        double* out = moments.as<double>();
        out[0] = static_cast<double>(rows);
        as_stored<T>(x, [&]<class S>() {
            const S* in = x.as<S>();
            sum_pairs<S>(rows, out + 1,
                         [=, channels = channels_](std::int64_t begin, std::int64_t end, auto* sums) {
                             add_row_moments(end - begin, channels, in + begin * channels, guess, sums,
                                             sums + channels);
                         });
        });
    }

    void normalizer(const TensorView& moments, const TensorView& shift, const TensorView& normalizer,
                    const TensorView& statistics) override {
        assert(normalizer.count() == 1 + 2 * channels_ && statistics.count() == 2 + 2 * channels_);
        const double* sums = moments.as<double>() + 1;
        const double* squares = sums + channels_;
        const T* guess = shift.as<T>();
        const double rows = moments.as<double>()[0], weight = rows < 2 ? 0 : rows;
        double* mean = normalizer.as<double>() + 1;
        double* inverse = mean + channels_;
        double* tracked_mean = statistics.as<double>() + 2;
        double* tracked_variance = tracked_mean + channels_;
        normalizer.as<double>()[0] = statistics.as<double>()[0] = rows;
        statistics.as<double>()[1] = weight;
#pragma omp simd
        for (std::int64_t c = 0; c < channels_; ++c) {
            const BatchNormStatistics channel =
                batch_norm_statistics(rows, sums[c], squares[c], static_cast<double>(guess[c]), shape_.eps);
            mean[c] = channel.mean;
            inverse[c] = channel.inverse;
            tracked_mean[c] = channel.weighted_mean;
            tracked_variance[c] = channel.weighted_variance;
        }
    }

    void normalizer_of_batch(const TensorView& x, const TensorView& shift, const TensorView& moments,
                             const TensorView& normalizer, const TensorView& statistics) override {
        if constexpr (!std::is_same_v<T, double>) {
            BatchNormOp::normalizer_of_batch(x, shift, moments, normalizer, statistics);
        } else {
            // The running mean may be far away, and the sums of values in fp64 have no digits to spare for
            // that: they are taken once more, from the batch's own mean.
            this->moments(x, shift, moments);
            const double* sums = moments.as<double>();
            const double rows = std::max(sums[0], 1.0);
            for (std::int64_t c = 0; c < channels_; ++c)
                mean_[static_cast<std::size_t>(c)] = shift.as<double>()[c] + sums[1 + c] / rows;
            const TensorView mean = view_of(std::span(mean_));
            this->moments(x, mean, moments);
            this->normalizer(moments, mean, normalizer, statistics);
        }
    }

    void running_normalizer(const TensorView& running_mean, const TensorView& running_var,
                            const TensorView& normalizer) override {
        const T* from_mean = running_mean.as<T>();
        const T* from_variance = running_var.as<T>();
        double* mean = normalizer.as<double>() + 1;
        double* inverse = mean + channels_;
        normalizer.as<double>()[0] = 0;
#pragma omp simd
        for (std::int64_t c = 0; c < channels_; ++c) {
            mean[c] = static_cast<double>(from_mean[c]);
            inverse[c] = 1 / std::sqrt(static_cast<double>(from_variance[c]) + shape_.eps);
        }
    }

    void forward(const TensorView& x, const TensorView& normalizer, const TensorView& weight,
                 const TensorView& bias, const TensorView& y) override {
        const std::int64_t rows = rows_of(x);
        assert(y.count() == x.count() && normalizer.count() == 1 + 2 * channels_);
        set_scale(normalizer, weight);
        as_stored<T>(x, [&]<class S>() {
            for_rows(rows, [&, in = x.as<S>(), out = y.as<S>()](std::int64_t first, std::int64_t count) {
                normalize_rows(count, channels_, in + first * channels_, normalizer_of(bias), shape_.relu,
                               out + first * channels_);
            });
        });
    }

    void backward_sums(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                       const TensorView& sums, const TensorView& dweight, const TensorView& dbias) override {
        sums_of(x, dy, normalizer, nullptr, sums, dweight, dbias);
    }

    void relu_backward_sums(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                            const TensorView& weight, const TensorView& bias, const TensorView& sums,
                            const TensorView& dweight, const TensorView& dbias) override {
        set_scale(normalizer, weight);
        const RowNormalizer<T> relu = normalizer_of(bias);
        sums_of(x, dy, normalizer, &relu, sums, dweight, dbias);
    }

    void backward(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                  const TensorView& weight, const TensorView& sums, const TensorView& dx) override {
        backward(x, dy, normalizer, weight, nullptr, sums, dx);
    }

    void relu_backward(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                       const TensorView& weight, const TensorView& bias, const TensorView& sums,
                       const TensorView& dx) override {
        const RowNormalizer<T> relu = normalizer_of(bias);
        backward(x, dy, normalizer, weight, &relu, sums, dx);
    }

  private:
    void set_scale(const TensorView& normalizer, const TensorView& weight) {
        const double* mean = normalizer.as<double>() + 1;
        const double* inverse = mean + channels_;
        for (std::size_t c = 0; c < size(); ++c) {
            mean_[c] = static_cast<T>(mean[c]);
            scale_[c] = static_cast<T>(inverse[c] * static_cast<double>(weight.as<T>()[c]));
        }
    }

    /// After set_scale, and until the next.
    RowNormalizer<T> normalizer_of(const TensorView& bias) const {
        return {mean_.data(), scale_.data(), bias.as<T>()};
    }

    /// relu: null where there is none behind.
    void backward(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                  const TensorView& weight, const RowNormalizer<T>* relu, const TensorView& sums,
                  const TensorView& dx) {
        const std::int64_t rows = rows_of(x);
        assert(dy.count() == x.count() && dx.count() == x.count());
        const double* inverse = normalizer.as<double>() + 1 + channels_;
        const double* plain = sums.as<double>();
        const double* weighted = plain + channels_;
        const double total = normalizer.as<double>()[0];
        set_scale(normalizer, weight);
        for (std::size_t c = 0; c < size(); ++c) {
            offset_[c] = total > 0 ? static_cast<T>(plain[c] / total) : T(0);
            slope_[c] = total > 0 ? static_cast<T>(inverse[c] * weighted[c] / total) : T(0);
        }
        const RowGradient<T> gradient{mean_.data(), scale_.data(), offset_.data(), slope_.data()};
        as_stored<T>(x, [&]<class S>() {
            for_rows(rows, [&, in = x.as<S>(), given = dy.as<S>(), out = dx.as<S>()](std::int64_t first,
                                                                                     std::int64_t count) {
                const std::int64_t at = first * channels_;
                gradient_rows(count, channels_, in + at, given + at, relu, gradient, out + at);
            });
        });
    }

    void sums_of(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                 const RowNormalizer<T>* relu, const TensorView& sums, const TensorView& dweight,
                 const TensorView& dbias) {
        const std::int64_t rows = rows_of(x);
        assert(dy.count() == x.count() && sums.count() == 2 * channels_);
        const double* mean = normalizer.as<double>() + 1;
        const double* inverse = mean + channels_;
        double* plain = sums.as<double>();
        double* weighted = plain + channels_;
        as_stored<T>(x, [&]<class S>() {
            const RowSum<S>* middle = nullptr;
            if constexpr (std::is_same_v<RowSum<S>, double>) {
                middle = mean;
            } else {
                std::copy_n(mean, channels_, short_mean_.data());
                middle = short_mean_.data();
            }
            sum_pairs<S>(
                rows, plain,
                [&, in = x.as<S>(), given = dy.as<S>()](std::int64_t begin, std::int64_t end, auto* to) {
                    const std::int64_t at = begin * channels_;
                    add_row_gradients(end - begin, channels_, in + at, given + at, relu, middle, to,
                                      to + channels_);
                });
        });
        for (std::int64_t c = 0; c < channels_; ++c) {
            weighted[c] *= inverse[c];
            dbias.as<T>()[c] = static_cast<T>(plain[c]);
            dweight.as<T>()[c] = static_cast<T>(weighted[c]);
        }
    }

    std::size_t size() const {
        return static_cast<std::size_t>(shape_.channels);
    }
    std::int64_t rows_of(const TensorView& x) const {
        assert(x.count() % channels_ == 0);
        return x.count() / channels_;
    }

    /// body(first, count) for all rows.
    template <class Body>
    void for_rows(std::int64_t rows, const Body& body) const {
        for_ranges(
            rows, [&body](std::int64_t begin, std::int64_t end) { body(begin, end - begin); }, channels_);
    }

    /// out[2C]: what add(begin, end, sums) adds to sums[2C] for all rows. Each share of the rows has its own,
    /// added in order.
    template <class S, class Add>
    void sum_pairs(std::int64_t rows, double* out, const Add& add) {
        std::fill_n(out, 2 * channels_, 0.0);
        const std::int64_t shares = rows * channels_ > elements_worth_threads
                                        ? std::min<std::int64_t>(omp_get_max_threads(), rows)
                                        : 1;
        // A cache line apart at least: threads do not write into each other's lines.
        const std::int64_t stride = (4 * channels_ + 15) / 8 * 8;
        double* const parts = workspace_->reserve_elements<double>(static_cast<std::size_t>(shares * stride));
        for_shares(rows, shares, [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
            double* const part = parts + share * stride;
            std::fill_n(part, 2 * channels_, 0.0);
            if constexpr (std::is_same_v<RowSum<S>, double>)
                for_some_rows(begin, end,
                              [&](std::int64_t first, std::int64_t last) { add(first, last, part); });
            else
                for_some_rows(begin, end,
                              [&, sums = reinterpret_cast<RowSum<S>*>(part + 2 * channels_)](
                                  std::int64_t first, std::int64_t last) {
                                  std::fill_n(sums, 2 * channels_, RowSum<S>(0));
                                  add(first, last, sums);
                                  for (std::int64_t i = 0; i < 2 * channels_; ++i)
                                      part[i] += static_cast<double>(sums[i]);
                              });
        });
        for (std::int64_t share = 0; share < shares; ++share) {
            const double* part = parts + share * stride;
#pragma omp simd
            for (std::int64_t i = 0; i < 2 * channels_; ++i) out[i] += part[i];
        }
    }

    /// body(first, last) for some rows after others, with offers of progress between them.
    template <class Body>
    void for_some_rows(std::int64_t begin, std::int64_t end, const Body& body) const {
        std::int64_t since_offer = 0;
        for (std::int64_t first = begin; first < end; first += short_rows) {
            const std::int64_t last = std::min(first + short_rows, end);
            body(first, last);
            if ((since_offer += (last - first) * channels_) < elements_between_offers) continue;
            since_offer = 0;
            offer_progress();
        }
    }

    const BatchNormShape shape_;
    const std::int64_t channels_;
    const std::shared_ptr<Workspace> workspace_;
    std::vector<T> mean_, scale_, offset_, slope_;  // per channel, of one call
    std::vector<float> short_mean_;
};

}  // namespace

template <class T>
void track_batch_norm(const BatchNormTracking& layer) {
    const std::int64_t channels = layer.running_mean.count();
    const double* statistics = layer.statistics.as<double>();
    const double rows = statistics[0], weight = statistics[1], momentum = layer.momentum;
    const double *mean = statistics + 2, *variance = mean + channels;
    // A batch that is not finite would spoil the running statistics for good, though its update is skipped or
    // ends the run.
    const auto follows = [&](const double* weighted, double of) {
        return std::all_of(weighted, weighted + channels,
                           [of](double value) { return can_follow<T>(value, of); });
    };
    if (rows <= 0 || !follows(mean, rows) || !follows(variance, weight)) return;
    const auto follow_all = [&](const double* weighted, double of, T* running) {
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c)
            running[c] = static_cast<T>(follow(static_cast<double>(running[c]), weighted[c], of, momentum));
    };
    follow_all(mean, rows, layer.running_mean.as<T>());
    if (weight > 0) follow_all(variance, weight, layer.running_var.as<T>());
    ++layer.batches.as<std::int64_t>()[0];
}
template void track_batch_norm<float>(const BatchNormTracking&);
template void track_batch_norm<double>(const BatchNormTracking&);

template <class T>
std::unique_ptr<BatchNormOp> make_batch_norm(const BatchNormShape& shape,
                                             std::shared_ptr<Workspace> workspace) {
    if (shape.channels < 1)
        throw UsageError("batch_norm: channels is " + std::to_string(shape.channels),
                         "it must be at least 1");
    if (!(shape.eps >= 0))
        throw UsageError("batch_norm: eps is " + std::to_string(shape.eps), "it must not be negative");
    return std::make_unique<CpuBatchNorm<T>>(shape, std::move(workspace));
}
template std::unique_ptr<BatchNormOp> make_batch_norm<float>(const BatchNormShape&,
                                                             std::shared_ptr<Workspace>);
template std::unique_ptr<BatchNormOp> make_batch_norm<double>(const BatchNormShape&,
                                                              std::shared_ptr<Workspace>);

}  // namespace tutti
