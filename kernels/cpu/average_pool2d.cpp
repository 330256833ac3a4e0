#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "shape_checks.hpp"

namespace tutti {
namespace {

template <class T>
class CpuAveragePool2d final : public AveragePool2dOp {
  public:
    explicit CpuAveragePool2d(const AveragePool2dShape& shape) : shape_(shape) {}

    void forward(const TensorView& x, const TensorView& y) override {
        const std::int64_t channels = shape_.channels;
        assert(x.count() == x.shape[0] * in_size_ && y.count() == x.shape[0] * out_size_);
        for_each_sample(x.shape[0], [&](std::int64_t n) {
            const T* in = x.as<T>() + n * in_size_;
            T* __restrict out = y.as<T>() + n * out_size_;
            for (const PoolWindow& rows : shape_.rows)
                for (const PoolWindow& columns : shape_.columns) {
                    std::fill_n(out, channels, T(0));
                    for_each_pixel(rows, columns, [&](std::int64_t pixel) {
                        const T* from = in + pixel;
#pragma omp simd
                        for (std::int64_t c = 0; c < channels; ++c) out[c] += from[c];
                    });
                    const T divisor = static_cast<T>(rows.divisor * columns.divisor);
#pragma omp simd
                    for (std::int64_t c = 0; c < channels; ++c) out[c] /= divisor;
                    out += channels;
                }
        });
    }

    void backward(const TensorView& dy, const TensorView& dx) override {
        const std::int64_t channels = shape_.channels;
        assert(dx.count() == dy.shape[0] * in_size_ && dy.count() == dy.shape[0] * out_size_);
        for_each_sample(dy.shape[0], [&](std::int64_t n) {
            T* din = dx.as<T>() + n * in_size_;
            const T* dout = dy.as<T>() + n * out_size_;
            std::fill_n(din, in_size_, T(0));
            for (const PoolWindow& rows : shape_.rows)
                for (const PoolWindow& columns : shape_.columns) {
                    const T divisor = static_cast<T>(rows.divisor * columns.divisor);
                    for_each_pixel(rows, columns, [&](std::int64_t pixel) {
                        T* __restrict to = din + pixel;
#pragma omp simd
                        for (std::int64_t c = 0; c < channels; ++c) to[c] += dout[c] / divisor;
                    });
                    dout += channels;
                }
        });
    }

  private:
    template <class Body>
    void for_each_sample(std::int64_t batch, const Body& body) const {
        for_ranges(
            batch,
            [&body](std::int64_t begin, std::int64_t end) {
                for (std::int64_t n = begin; n < end; ++n) body(n);
            },
            in_size_);
    }
    /// visit(offset of the pixel's first channel).
    template <class Visit>
    void for_each_pixel(const PoolWindow& rows, const PoolWindow& columns, const Visit& visit) const {
        for (std::int64_t h = rows.begin; h < rows.end; ++h)
            for (std::int64_t w = columns.begin; w < columns.end; ++w)
                visit((h * shape_.width + w) * shape_.channels);
    }

    const AveragePool2dShape shape_;
    const std::int64_t in_size_ = shape_.height * shape_.width * shape_.channels;
    const std::int64_t out_size_ =
        static_cast<std::int64_t>(shape_.rows.size() * shape_.columns.size()) * shape_.channels;
};

}  // namespace

template <class T>
std::unique_ptr<AveragePool2dOp> make_average_pool2d(const AveragePool2dShape& shape) {
    check(shape);
    return std::make_unique<CpuAveragePool2d<T>>(shape);
}
template std::unique_ptr<AveragePool2dOp> make_average_pool2d<float>(const AveragePool2dShape&);
template std::unique_ptr<AveragePool2dOp> make_average_pool2d<double>(const AveragePool2dShape&);

}  // namespace tutti
