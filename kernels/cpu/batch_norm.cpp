// Batch normalisation in two passes over x forward (moments, then x̂) and two over x and dy backward (sums,
// then dx), also with a ReLU behind: whether a value passed it is computed again from x. Channels are side by
// side, so every loop over them is a vector loop; sums are in double.

#include <algorithm>
#include <cmath>
#include <vector>

#include "../common/activations.hpp"
#include "../common/batch_norm_math.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Rows whose terms are added before they touch the running sums: so many fewer loads and stores of these.
constexpr std::int64_t rows_at_once = 4;

/// Adds Σ first(row, c) and Σ second(row, c) over the rows to two sums per channel. The terms of a pair come
/// from one call, term(row, c) -> {first, second}.
template <class Term>
void add_pairs(std::int64_t begin, std::int64_t end, std::int64_t channels, double* __restrict first,
               double* __restrict second, const Term& term) {
    std::int64_t row = begin;
    for (; row + rows_at_once <= end; row += rows_at_once) {
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const auto a = term(row, c), b = term(row + 1, c), d = term(row + 2, c), e = term(row + 3, c);
            first[c] += (a.first + b.first) + (d.first + e.first);
            second[c] += (a.second + b.second) + (d.second + e.second);
        }
    }
    for (; row < end; ++row) {
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const auto a = term(row, c);
            first[c] += a.first;
            second[c] += a.second;
        }
    }
}

struct Pair {
    double first, second;
};

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
          slope_(size()) {}

    void moments(const TensorView& x, const TensorView& shift, const TensorView& moments) override {
        const std::int64_t rows = rows_of(x);
        assert(moments.count() == 1 + 2 * channels_ && shift.count() == channels_);
        const T* in = x.as<T>();
        const T* guess = shift.as<T>();
        double* out = moments.as<double>();
        out[0] = static_cast<double>(rows);
        sum_pairs(
            rows, out + 1,
            [in, guess, channels = channels_](std::int64_t row, std::int64_t c) {
                const double distance =
                    static_cast<double>(in[row * channels + c]) - static_cast<double>(guess[c]);
                return Pair{distance, distance * distance};
            },
            [](std::int64_t, std::int64_t) {});
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

    void track(const TensorView& statistics, const TensorView& running_mean, const TensorView& running_var,
               const TensorView& batches) override {
        const double* mean = statistics.as<double>() + 2;
        const double* variance = mean + channels_;
        const double rows = statistics.as<double>()[0], weight = statistics.as<double>()[1];
        // A batch that is not finite would spoil the running statistics for good, though its update is
        // skipped or ends the run.
        const auto finite = [](double value) { return std::isfinite(value); };
        if (rows <= 0 || !std::all_of(mean, mean + 2 * channels_, finite)) return;
        follow_all(mean, rows, running_mean.as<T>());
        if (weight > 0) follow_all(variance, weight, running_var.as<T>());
        ++batches.as<std::int64_t>()[0];
    }

    void forward(const TensorView& x, const TensorView& normalizer, const TensorView& weight,
                 const TensorView& bias, const TensorView& y) override {
        const std::int64_t rows = rows_of(x);
        assert(y.count() == x.count() && normalizer.count() == 1 + 2 * channels_);
        set_scale(normalizer, weight);
        const T* in = x.as<T>();
        const T* middle = mean_.data();
        const T* scale = scale_.data();
        const T* offset = bias.as<T>();
        T* out = y.as<T>();
        const auto forward_rows = [&](const auto& behind) {
            for_rows(rows, [=, channels = channels_](std::int64_t row) {
                const T* from = in + row * channels;
                T* to = out + row * channels;
#pragma omp simd
                for (std::int64_t c = 0; c < channels; ++c)
                    to[c] = behind(BatchNormForward<T>{middle[c], scale[c], offset[c]}(from[c]));
            });
        };
        if (shape_.relu)
            forward_rows([](T value) { return relu(value); });
        else
            forward_rows([](T value) { return value; });
    }

    void backward_sums(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                       const TensorView& sums, const TensorView& dweight, const TensorView& dbias) override {
        sums_of(x, dy, normalizer, sums, dweight, dbias, [](std::int64_t, std::int64_t) {});
    }

    void relu_backward_sums(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                            const TensorView& weight, const TensorView& bias, const TensorView& sums,
                            const TensorView& dweight, const TensorView& dbias) override {
        set_scale(normalizer, weight);
        const T* in = x.as<T>();
        const T* middle = mean_.data();
        const T* scale = scale_.data();
        const T* offset = bias.as<T>();
        T* dout = dy.as<T>();
        sums_of(x, dy, normalizer, sums, dweight, dbias,
                [=, channels = channels_](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                        const T* from = in + row * channels;
                        T* gradient = dout + row * channels;
#pragma omp simd
                        for (std::int64_t c = 0; c < channels; ++c) {
                            const T given = gradient[c];  // read in any case, or a branch prevents vectors
                            gradient[c] = relu_gradient(
                                BatchNormForward<T>{middle[c], scale[c], offset[c]}(from[c]), given);
                        }
                    }
                });
    }

    void backward(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                  const TensorView& weight, const TensorView& sums, const TensorView& dx) override {
        const std::int64_t rows = rows_of(x);
        assert(dy.count() == x.count() && dx.count() == x.count());
        const double* inverse = normalizer.as<double>() + 1 + channels_;
        const double* plain = sums.as<double>();
        const double* weighted = plain + channels_;
        const double total = std::max(1.0, normalizer.as<double>()[0]);
        set_scale(normalizer, weight);
        for (std::size_t c = 0; c < size(); ++c) {
            offset_[c] = static_cast<T>(plain[c] / total);
            slope_[c] = static_cast<T>(inverse[c] * weighted[c] / total);
        }
        const T* in = x.as<T>();
        const T* dout = dy.as<T>();
        const T* middle = mean_.data();
        const T* scale = scale_.data();
        const T* offset = offset_.data();
        const T* slope = slope_.data();
        T* out = dx.as<T>();
        for_rows(rows, [=, channels = channels_](std::int64_t row) {
            const T* from = in + row * channels;
            const T* gradient = dout + row * channels;
            T* to = out + row * channels;
#pragma omp simd
            for (std::int64_t c = 0; c < channels; ++c)
                to[c] = BatchNormBackward<T>{middle[c], scale[c], offset[c], slope[c]}(from[c], gradient[c]);
        });
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

    /// `before(begin, end)` is called on some rows before their terms are taken, while they are in the cache.
    template <class Before>
    void sums_of(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                 const TensorView& sums, const TensorView& dweight, const TensorView& dbias,
                 const Before& before) {
        const std::int64_t rows = rows_of(x);
        assert(dy.count() == x.count() && sums.count() == 2 * channels_);
        const double* mean = normalizer.as<double>() + 1;
        const double* inverse = mean + channels_;
        const T* in = x.as<T>();
        const T* dout = dy.as<T>();
        double* plain = sums.as<double>();
        double* weighted = plain + channels_;
        sum_pairs(
            rows, plain,
            [=, channels = channels_](std::int64_t row, std::int64_t c) {
                const double gradient = static_cast<double>(dout[row * channels + c]);
                return Pair{gradient, gradient * (static_cast<double>(in[row * channels + c]) - mean[c])};
            },
            before);
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

    template <class Body>
    void for_rows(std::int64_t rows, const Body& body) const {
        for_ranges(
            rows,
            [&body](std::int64_t begin, std::int64_t end) {
                for (std::int64_t row = begin; row < end; ++row) body(row);
            },
            channels_);
    }

    /// out[2C]: the sums of term(row, c) over all rows; `before` as in sums_of. Each share of the rows has
    /// its own, added in order.
    template <class Term, class Before>
    void sum_pairs(std::int64_t rows, double* out, const Term& term, const Before& before) {
        std::fill_n(out, 2 * channels_, 0.0);
        const std::int64_t shares = rows * channels_ > elements_worth_threads
                                        ? std::min<std::int64_t>(omp_get_max_threads(), rows)
                                        : 1;
        // A multiple of rows_at_once, so that the order of the sums does not depend on it.
        const std::int64_t cached = std::max<std::int64_t>(1, 1024 / channels_) * rows_at_once;
        const auto add = [&](std::int64_t begin, std::int64_t end, double* sums) {
            std::int64_t since_offer = 0;
            for (std::int64_t first = begin; first < end; first += cached) {
                const std::int64_t last = std::min(first + cached, end);
                before(first, last);
                add_pairs(first, last, channels_, sums, sums + channels_, term);
                if ((since_offer += (last - first) * channels_) < elements_between_offers) continue;
                since_offer = 0;
                offer_progress();
            }
        };
        if (shares == 1) return add(0, rows, out);
        // A cache line apart at least: threads do not write into each other's lines.
        const std::int64_t stride = (2 * channels_ + 15) / 8 * 8;
        double* parts = workspace_->reserve_elements<double>(static_cast<std::size_t>(shares * stride));
        for_shares(rows, shares, [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
            double* part = parts + share * stride;
            std::fill_n(part, 2 * channels_, 0.0);
            add(begin, end, part);
        });
        for (std::int64_t share = 0; share < shares; ++share) {
            const double* part = parts + share * stride;
#pragma omp simd
            for (std::int64_t i = 0; i < 2 * channels_; ++i) out[i] += part[i];
        }
    }

    void follow_all(const double* weighted, double weight, T* running) const {
        const double momentum = shape_.momentum;
#pragma omp simd
        for (std::int64_t c = 0; c < channels_; ++c)
            running[c] =
                static_cast<T>(follow(static_cast<double>(running[c]), weighted[c], weight, momentum));
    }

    const BatchNormShape shape_;
    const std::int64_t channels_;
    const std::shared_ptr<Workspace> workspace_;
    std::vector<T> mean_, scale_, offset_, slope_;  // per channel, of one call
};

}  // namespace

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
