// Convolution as im2col + matrix product, one sample at a time: the columns of one sample stay in the cache,
// and samples are what threads share. Per group g and sample:
//   columns[P, K]: row p holds the K = KH·KW·I/groups inputs under the kernel at output place p (P = OH·OW)
//   y[P, g]       = columns · weight[g]ᵀ
//   dweight[g]   += dy[P, g]ᵀ · columns
//   dx           += col2im(dy[P, g] · weight[g])

#include <omp.h>

#include <algorithm>

#include "eigen_ops.hpp"
#include "matrix_product.hpp"
#include "parallel.hpp"
#include "shape_checks.hpp"
#include "thread_team.hpp"

namespace tutti {
namespace {

template <class T>
class EigenConv2d final : public Conv2dOp {
  public:
    EigenConv2d(const Conv2dShape& shape, std::shared_ptr<Workspace> workspace)
        : shape_(shape), workspace_(std::move(workspace)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        const std::int64_t batch = x.shape[0];
        assert(x.count() == batch * in_size_ && y.count() == batch * places_ * shape_.out);
        assert(weight.count() == weight_size_ && bias.defined() == shape_.bias);
        if (batch == 0) return;
        const std::int64_t shares = count_shares(batch);
        T* scratch = reserve(shares * columns_size_);
        for_shares(batch, shares, [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
            T* columns = scratch + share * columns_size_;
            for (std::int64_t n = begin; n < end; ++n) {
                forward_sample(x.as<T>() + n * in_size_, weight.as<T>(), shape_.bias ? bias.as<T>() : nullptr,
                               y.as<T>() + n * places_ * shape_.out, columns);
                offer_progress();
            }
        });
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias, const ParametersFinal*) override {
        const std::int64_t batch = x.shape[0];
        assert(x.count() == batch * in_size_ && dy.count() == batch * places_ * shape_.out);
        assert(dweight.count() == weight_size_ && dbias.defined() == shape_.bias);
        const std::int64_t shares = count_shares(batch);
        // Share 0 sums into dweight and dbias themselves, every other share into its own part of the scratch.
        const std::int64_t sums_size = weight_size_ + shape_.out;
        T* scratch = reserve(shares * columns_size_ + (shares - 1) * sums_size);
        T* sums = scratch + shares * columns_size_;
        for_shares(batch, shares, [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
            T* part = share == 0 ? nullptr : sums + (share - 1) * sums_size;
            T* dw = share == 0 ? dweight.as<T>() : part;
            T* db = !shape_.bias ? nullptr : share == 0 ? dbias.as<T>() : part + weight_size_;
            std::fill(dw, dw + weight_size_, T(0));
            if (db) std::fill(db, db + shape_.out, T(0));
            T* columns = scratch + share * columns_size_;
            for (std::int64_t n = begin; n < end; ++n) {
                const T* dy_n = dy.as<T>() + n * places_ * shape_.out;
                backward_weight(x.as<T>() + n * in_size_, dy_n, dw, db, columns);
                if (dx.defined())
                    backward_data_sample(weight.as<T>(), dy_n, dx.as<T>() + n * in_size_, columns);
                offer_progress();
            }
        });
        for (std::int64_t share = 1; share < shares; ++share) {
            const T* part = sums + (share - 1) * sums_size;
            add_to(dweight.as<T>(), part, weight_size_);
            if (shape_.bias) add_to(dbias.as<T>(), part + weight_size_, shape_.out);
        }
    }

    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        const std::int64_t batch = dy.shape[0];
        assert(dx.count() == batch * in_size_ && dy.count() == batch * places_ * shape_.out);
        assert(weight.count() == weight_size_);
        if (batch == 0) return;
        const std::int64_t shares = count_shares(batch);
        T* scratch = reserve(shares * columns_size_);
        for_shares(batch, shares, [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                backward_data_sample(weight.as<T>(), dy.as<T>() + n * places_ * shape_.out,
                                     dx.as<T>() + n * in_size_, scratch + share * columns_size_);
                offer_progress();
            }
        });
    }

  private:
    using Matrix = MatrixView<T>;
    using ConstMatrix = MatrixView<const T>;

    /// Depends on the shapes and the number of threads only, as must everything that decides the order of
    /// sums.
    std::int64_t shares_of_work(std::int64_t batch) const {
        const std::int64_t products = batch * places_ * shape_.out * taps_;
        if (products < 16 * elements_worth_threads) return 1;
        return std::min<std::int64_t>(omp_get_max_threads(), batch);
    }
    std::int64_t count_shares(std::int64_t batch) const {
        const std::int64_t shares = shares_of_work(batch);
        if (shares == 1) ThreadTeam::note_library_region();  // Eigen may compute products in several threads
        return shares;
    }

    T* reserve(std::int64_t elements) {
        return workspace_->reserve_elements<T>(static_cast<std::size_t>(elements));
    }

    static void add_to(T* __restrict sum, const T* __restrict part, std::int64_t count) {
        for_ranges(count, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) sum[i] += part[i];
        });
    }

    /// Views of one group: of y or dy of a sample, of x or dx of a sample as [H·W, I/groups], of the weights.
    template <class Element>
    MatrixView<Element> group_outputs(Element* y, std::int64_t group) const {
        return {y + group * group_out_, places_, group_out_, shape_.out};
    }
    template <class Element>
    MatrixView<Element> group_inputs(Element* x, std::int64_t group) const {
        return {x + group * group_in_, shape_.height * shape_.width, group_in_, shape_.in};
    }
    template <class Element>
    MatrixView<Element> group_weight(Element* weight, std::int64_t group) const {
        return {weight + group * group_out_ * taps_, group_out_, taps_};
    }

    void forward_sample(const T* x, const T* weight, const T* bias, T* y, T* columns) const {
        for (std::int64_t group = 0; group < shape_.groups; ++group)
            multiply_transposed(gather(x, group, columns), group_weight(weight, group),
                                group_outputs(y, group));
        if (bias) add_to_rows(bias, y, places_, shape_.out);
    }

    void backward_weight(const T* x, const T* dy, T* dweight, T* dbias, T* columns) const {
        for (std::int64_t group = 0; group < shape_.groups; ++group)
            add_transposed_product(group_outputs(dy, group), gather(x, group, columns),
                                   group_weight(dweight, group));
        if (dbias)
            for (std::int64_t place = 0; place < places_; ++place) {
                const T* out = dy + place * shape_.out;
#pragma omp simd
                for (std::int64_t channel = 0; channel < shape_.out; ++channel)
                    dbias[channel] += out[channel];
            }
    }

    void backward_data_sample(const T* weight, const T* dy, T* dx, T* columns) const {
        if (!pointwise_) std::fill(dx, dx + in_size_, T(0));
        for (std::int64_t group = 0; group < shape_.groups; ++group) {
            const Matrix target = pointwise_ ? group_inputs(dx, group) : Matrix(columns, places_, taps_);
            multiply(group_outputs(dy, group), group_weight(weight, group), target);
            if (!pointwise_) scatter(columns, group, dx);
        }
    }

    /// im2col; for a pointwise convolution the sample itself has the wanted form.
    ConstMatrix gather(const T* x, std::int64_t group, T* columns) const {
        if (pointwise_) return group_inputs(x, group);
        for_runs(group, [x, columns](std::int64_t column, std::int64_t pixel, std::int64_t count) {
            T* __restrict to = columns + column;
            const T* __restrict from = x + pixel;
            if (pixel < 0)
                for (std::int64_t i = 0; i < count; ++i) to[i] = T(0);
            else
                for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
        });
        return {columns, places_, taps_};
    }

    /// col2im: adds each column element to the input that it came from.
    void scatter(const T* columns, std::int64_t group, T* dx) const {
        for_runs(group, [columns, dx](std::int64_t column, std::int64_t pixel, std::int64_t count) {
            if (pixel < 0) return;
            T* __restrict to = dx + pixel;
            const T* __restrict from = columns + column;
            for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
        });
    }

    /// Calls visit(column, pixel, count) for runs of elements that lie side by side in columns and in the
    /// sample, in the order of columns; pixel is −1 in the padding. Without groups, a row of the kernel is
    /// one run.
    template <class Visit>
    void for_runs(std::int64_t group, const Visit& visit) const {
        std::int64_t column = 0;
        const auto run = [&](std::int64_t pixel, std::int64_t count) {
            if (count > 0) visit(column, pixel, count);
            column += count;
        };
        for (std::int64_t oh = 0; oh < shape_.out_height(); ++oh)
            for (std::int64_t ow = 0; ow < shape_.out_width(); ++ow)
                for (std::int64_t kh = 0; kh < shape_.kernel_h; ++kh) {
                    const std::int64_t h = oh * shape_.stride_h - shape_.padding_h + kh;
                    const std::int64_t left = ow * shape_.stride_w - shape_.padding_w;
                    const bool inside = h >= 0 && h < shape_.height;
                    // kw in [first, last) is inside the row.
                    const std::int64_t first =
                        inside ? std::clamp<std::int64_t>(-left, 0, shape_.kernel_w) : 0;
                    const std::int64_t last =
                        inside ? std::clamp<std::int64_t>(shape_.width - left, first, shape_.kernel_w) : 0;
                    const std::int64_t pixel =
                        (h * shape_.width + left + first) * shape_.in + group * group_in_;
                    run(-1, first * group_in_);
                    if (shape_.groups == 1)
                        run(pixel, (last - first) * group_in_);
                    else
                        for (std::int64_t kw = 0; kw < last - first; ++kw)
                            run(pixel + kw * shape_.in, group_in_);
                    run(-1, (shape_.kernel_w - last) * group_in_);
                }
    }

    const Conv2dShape shape_;
    const std::shared_ptr<Workspace> workspace_;
    const std::int64_t in_size_ = shape_.height * shape_.width * shape_.in;
    const std::int64_t places_ = shape_.out_height() * shape_.out_width();
    const std::int64_t group_in_ = shape_.in / shape_.groups;
    const std::int64_t group_out_ = shape_.out / shape_.groups;
    const std::int64_t taps_ = shape_.kernel_h * shape_.kernel_w * group_in_;
    const std::int64_t weight_size_ = shape_.out * taps_;
    const bool pointwise_ = shape_.kernel_h == 1 && shape_.kernel_w == 1 && shape_.stride_h == 1 &&
                            shape_.stride_w == 1 && shape_.padding_h == 0 && shape_.padding_w == 0;
    const std::int64_t columns_size_ = pointwise_ ? 0 : places_ * taps_;
};

}  // namespace

template <class T>
std::unique_ptr<Conv2dOp> make_eigen_conv2d(const Conv2dShape& shape, std::shared_ptr<Workspace> workspace) {
    check(shape);
    return std::make_unique<EigenConv2d<T>>(shape, std::move(workspace));
}
template std::unique_ptr<Conv2dOp> make_eigen_conv2d<float>(const Conv2dShape&, std::shared_ptr<Workspace>);
template std::unique_ptr<Conv2dOp> make_eigen_conv2d<double>(const Conv2dShape&, std::shared_ptr<Workspace>);

}  // namespace tutti
