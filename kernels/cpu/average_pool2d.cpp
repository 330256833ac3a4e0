#include <algorithm>
#include <array>

#include "bf16_value.hpp"
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
        assert(x.count() == x.shape[0] * in_size_ && y.count() == x.shape[0] * out_size_);
        as_stored<T>(x, [&]<class S>() {
            for_each_sample(x.shape[0], [&, in = x.as<S>(), out = y.as<S>()](std::int64_t n) {
                average(in + n * in_size_, out + n * out_size_);
            });
        });
    }

    void backward(const TensorView& dy, const TensorView& dx) override {
        assert(dx.count() == dy.shape[0] * in_size_ && dy.count() == dy.shape[0] * out_size_);
        as_stored<T>(dx, [&]<class S>() {
            for_each_sample(dy.shape[0], [&, dout = dy.as<S>(), din = dx.as<S>()](std::int64_t n) {
                spread(dout + n * out_size_, din + n * in_size_);
            });
        });
    }

  private:
    /// Channels whose sums are kept aside, in T, until they are complete.
    static constexpr std::int64_t at_once = 64;
    using Sums = std::array<T, at_once>;

    /// Calls body(first, count) for some channels after others.
    template <class Body>
    void for_channels(const Body& body) const {
        for (std::int64_t first = 0; first < shape_.channels; first += at_once)
            body(first, std::min(at_once, shape_.channels - first));
    }
    /// Those of one sample.
    template <class S>
    void average(const S* in, S* out) const {
        for (const PoolWindow& rows : shape_.rows)
            for (const PoolWindow& columns : shape_.columns) {
                for_channels([&](std::int64_t first, std::int64_t count) {
                    Sums sums{};
                    for_each_pixel(rows, columns, [&](std::int64_t pixel) {
                        const S* const from = in + pixel + first;
#pragma omp simd
                        for (std::int64_t c = 0; c < count; ++c)
                            sums[static_cast<std::size_t>(c)] += number_of<T>(from[c]);
                    });
                    const T divisor = static_cast<T>(rows.divisor * columns.divisor);
#pragma omp simd
                    for (std::int64_t c = 0; c < count; ++c)
                        out[first + c] = stored_as<S>(sums[static_cast<std::size_t>(c)] / divisor);
                });
                out += shape_.channels;
            }
    }
    /// Pixel by pixel, of which each is the sum of its windows' gradients.
    template <class S>
    void spread(const S* dout, S* din) const {
        const auto columns = static_cast<std::int64_t>(shape_.columns.size());
        for (std::int64_t h = 0; h < shape_.height; ++h)
            for (std::int64_t w = 0; w < shape_.width; ++w, din += shape_.channels) {
                const Range of_row = windows_of_row_[static_cast<std::size_t>(h)],
                            of_column = windows_of_column_[static_cast<std::size_t>(w)];
                for_channels([&](std::int64_t first, std::int64_t count) {
                    Sums sums{};
                    for (std::int64_t oh = of_row.begin; oh < of_row.end; ++oh)
                        for (std::int64_t ow = of_column.begin; ow < of_column.end; ++ow) {
                            const S* const from = dout + (oh * columns + ow) * shape_.channels + first;
                            const T divisor =
                                static_cast<T>(shape_.rows[static_cast<std::size_t>(oh)].divisor *
                                               shape_.columns[static_cast<std::size_t>(ow)].divisor);
#pragma omp simd
                            for (std::int64_t c = 0; c < count; ++c)
                                sums[static_cast<std::size_t>(c)] += number_of<T>(from[c]) / divisor;
                        }
#pragma omp simd
                    for (std::int64_t c = 0; c < count; ++c)
                        din[first + c] = stored_as<S>(sums[static_cast<std::size_t>(c)]);
                });
            }
    }

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

    /// Windows [begin, end) that have a row or column, which lie one behind the other: both ends of windows
    /// never go back.
    struct Range {
        std::int64_t begin, end;
    };
    static std::vector<Range> windows_of_each(std::int64_t size, const std::vector<PoolWindow>& windows) {
        std::vector<Range> result;
        for (std::int64_t at = 0; at < size; ++at) {
            const auto holds = [at](const PoolWindow& one) { return one.begin <= at && at < one.end; };
            const auto first = std::find_if(windows.begin(), windows.end(), holds);
            const auto end = std::find_if_not(first, windows.end(), holds);
            result.push_back({first - windows.begin(), end - windows.begin()});
        }
        return result;
    }

    const AveragePool2dShape shape_;
    const std::vector<Range> windows_of_row_ = windows_of_each(shape_.height, shape_.rows),
                             windows_of_column_ = windows_of_each(shape_.width, shape_.columns);
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
