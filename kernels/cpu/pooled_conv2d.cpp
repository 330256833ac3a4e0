// Convolution and max pooling of images with few channels. Each image is brought into a padded copy, which
// its windows read without asking where the border is.

#include <cstring>

#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "pooled_convolution.hpp"
#include "shape_checks.hpp"
#include "sum_tree.hpp"
#include "tile_vector.hpp"

namespace tutti {
namespace {

/// Sums of gradients are made in so many parts of the batch, whatever the number of threads.
constexpr std::int64_t gradient_parts = 32;
/// Images between two offers of progress.
constexpr std::int64_t images_between_offers = 8;

class PooledConv2d final : public PooledConv2dOp {
  public:
    PooledConv2d(const Conv2dShape& shape, const Pool2dShape& pool, std::shared_ptr<Workspace> workspace)
        : shape_(shape), workspace_(std::move(workspace)) {
        const std::int64_t pixel = shape.in, row = (shape.width + 2 * shape.padding_w) * pixel;
        padded_count_ = (shape.height + 2 * shape.padding_h) * row;
        plan_.out_height = pool.out_height();
        plan_.out_width = pool.out_width();
        plan_.channels = shape.out;
        plan_.relu = pool.relu;
        plan_.row_step = 2 * shape.stride_h * row;
        plan_.column_step = 2 * shape.stride_w * pixel;
        for (int k = 0; k < 4; ++k)
            plan_.places[k] = (k / 2) * shape.stride_h * row + (k % 2) * shape.stride_w * pixel;
        for (std::int64_t kh = 0; kh < shape.kernel_h; ++kh)
            for (std::int64_t kw = 0; kw < shape.kernel_w; ++kw)
                for (std::int64_t i = 0; i < shape.in; ++i) plan_.taps.push_back(kh * row + kw * pixel + i);
    }

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                 const TensorView& winner) override {
        const std::int64_t batch = x.shape[0], out_count = y.count() / std::max<std::int64_t>(batch, 1);
        assert(bias.defined() == shape_.bias && winner.count() == y.count());
        const std::int64_t shares = std::min<std::int64_t>(omp_get_max_threads(), batch);
        if (shares == 0) return;
        float* const taps_first = workspace_->reserve_elements<float>(
            static_cast<std::size_t>(weight_count() + padded<float>(shape_.out) + shares * image_count()));
        float* const biases = taps_first + weight_count();
        float* const images = biases + padded<float>(shape_.out);
        transpose(weight.as<float>(), taps_first, shape_.out, tap_count());
        if (shape_.bias)
            std::copy_n(bias.as<float>(), shape_.out, biases);
        else
            std::fill_n(biases, shape_.out, 0.0F);
        for_shares(batch, shares, [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
            float* const image = images + share * image_count();
            std::fill_n(image, padded_count_, 0.0F);
            for (std::int64_t n = begin; n < end; ++n) {
                pad(x.as<float>(), n, image);
                pool_convolution(plan_, image, taps_first, biases, y.as<float>() + n * out_count,
                                 winner.as<unsigned char>() + n * out_count);
                if ((n - begin) % images_between_offers == images_between_offers - 1) offer_progress();
            }
        });
    }

    void backward(const TensorView& x, const TensorView&, const TensorView& winner, const TensorView& dy,
                  [[maybe_unused]] const TensorView& dx, const TensorView& dweight,
                  const TensorView& dbias) override {
        assert(!dx.defined());
        const std::int64_t batch = x.shape[0], out_count = dy.count() / std::max<std::int64_t>(batch, 1);
        assert(dbias.defined() == shape_.bias && winner.count() == dy.count());
        const std::int64_t parts = std::clamp<std::int64_t>(batch, 1, gradient_parts);
        const std::int64_t part_count = weight_count() + padded<float>(shape_.out);
        const std::int64_t shares = std::min<std::int64_t>(omp_get_max_threads(), parts);
        float* const sums = workspace_->reserve_elements<float>(
            static_cast<std::size_t>(parts * part_count + shares * image_count()));
        SumTree tree(parts);
        const auto add = [&](std::int64_t to, std::int64_t from) {
            for (std::int64_t i = 0; i < part_count; ++i)
                sums[to * part_count + i] += sums[from * part_count + i];
        };
        for_shares(parts, shares, [&](std::int64_t share, std::int64_t first, std::int64_t last) {
            float* const image = sums + parts * part_count + share * image_count();
            std::fill_n(image, padded_count_, 0.0F);
            for (std::int64_t part = first; part < last; ++part) {
                float* const sum = sums + part * part_count;
                std::fill_n(sum, part_count, 0.0F);
                const std::int64_t end = share_begin(batch, parts, part + 1);
                for (std::int64_t n = share_begin(batch, parts, part); n < end; ++n) {
                    pad(x.as<float>(), n, image);
                    add_pooled_gradients(plan_, image, dy.as<float>() + n * out_count,
                                         winner.as<unsigned char>() + n * out_count, sum,
                                         sum + weight_count());
                }
                tree.finish(part, add);
                offer_progress();
            }
        });
        if (tree.second_half() > 0) add(0, tree.second_half());
        transpose(sums, dweight.as<float>(), tap_count(), shape_.out);
        if (shape_.bias) std::copy_n(sums + weight_count(), shape_.out, dbias.as<float>());
    }

  private:
    std::int64_t tap_count() const { return static_cast<std::int64_t>(plan_.taps.size()); }
    std::int64_t weight_count() const { return padded<float>(tap_count() * shape_.out); }
    std::int64_t image_count() const { return padded<float>(padded_count_); }

    /// to[columns, rows] = from[rows, columns]ᵀ
    static void transpose(const float* from, float* to, std::int64_t rows, std::int64_t columns) {
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
    }
    /// `image` has zeros all around.
    void pad(const float* images, std::int64_t n, float* image) const {
        const std::int64_t row = shape_.width * shape_.in,
                           padded_row = row + 2 * shape_.padding_w * shape_.in;
        const float* from = images + n * shape_.height * row;
        float* to = image + shape_.padding_h * padded_row + shape_.padding_w * shape_.in;
        for (std::int64_t h = 0; h < shape_.height; ++h, from += row, to += padded_row)
            std::memcpy(to, from, static_cast<std::size_t>(row) * sizeof(float));
    }

    const Conv2dShape shape_;
    const std::shared_ptr<Workspace> workspace_;
    PooledConvolution plan_;
    std::int64_t padded_count_ = 0;
};

/// A library works on rows of many channels, or of many pixels; with few input channels it computes little
/// per element of its output, which this does not write. Not by the instruction set, so that all machines
/// fuse alike.
bool pays(const Conv2dShape& s, const Pool2dShape& pool) {
    return s.in <= 4 && s.groups == 1 && s.out % 16 == 0 && pool.kernel_h == 2 && pool.kernel_w == 2 &&
           pool.stride_h == 2 && pool.stride_w == 2 && pool.padding_h == 0 && pool.padding_w == 0;
}

}  // namespace

std::unique_ptr<PooledConv2dOp> make_pooled_conv2d(const Conv2dShape& shape, const Pool2dShape& pool,
                                                   std::shared_ptr<Workspace> workspace) {
    check(shape);
    assert(pool.height == shape.out_height() && pool.width == shape.out_width() &&
           pool.channels == shape.out);
    if (!pays(shape, pool)) return nullptr;
    return std::make_unique<PooledConv2d>(shape, pool, std::move(workspace));
}

}  // namespace tutti
