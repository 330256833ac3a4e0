// Convolution and max pooling of 2×2. Forward is the backend's convolution and then the pooling; backward is
// our own: of the convolution's products it computes those of the windows' winners, a quarter at most, and
// needs no gradient of the convolution's output. (A library, given that gradient, multiplies its zeros.)

#include <algorithm>

#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "shape_checks.hpp"
#include "sum_tree.hpp"
#include "tile_vector.hpp"
#include "winner_image_gradients.hpp"

namespace tutti {
namespace {

/// Sums of gradients are made in so many parts of the batch, whatever the number of threads.
constexpr std::int64_t gradient_parts = 16;

class WinnerConv2d final : public PooledConv2dOp {
  public:
    WinnerConv2d(const Conv2dShape& shape, const Pool2dShape& pool, std::unique_ptr<Conv2dOp> convolution,
                 std::shared_ptr<Workspace> workspace, std::shared_ptr<Workspace> sums)
        : shape_(shape),
          pool_(pool),
          convolution_(std::move(convolution)),
          workspace_(std::move(workspace)),
          sums_(std::move(sums)) {
        plan_.in = shape.in;
        plan_.out = shape.out;
        plan_.windows_h = pool.out_height();
        plan_.windows_w = pool.out_width();
        plan_.height = shape.height;
        plan_.width = shape.width;
        plan_.padding_h = shape.padding_h;
        plan_.padding_w = shape.padding_w;
        plan_.row_step = 2 * shape.stride_h * plan_.row();
        plan_.column_step = 2 * shape.stride_w;
        for (int k = 0; k < 4; ++k)
            plan_.places[k] = (k / 2) * shape.stride_h * plan_.row() + (k % 2) * shape.stride_w;
    }

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                 const TensorView& winner) override {
        const std::int64_t batch = x.shape[0];
        if (batch == 0) return;
        TensorView sums = y;
        sums.shape = {batch, shape_.out_height(), shape_.out_width(), shape_.out};
        sums.data = sums_->reserve(sums.bytes());
        convolution_->forward(x, weight, bias, sums);
        max_pool2d<float>(pool_, sums, y, winner);
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& winner,
                  const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                  const TensorView& dbias) override {
        const std::int64_t batch = x.shape[0], parts = std::clamp<std::int64_t>(batch, 1, gradient_parts);
        const int callers = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), parts));
        const Layout layout(*this, parts);
        std::byte* const scratch = workspace_->reserve(layout.bytes(callers));
        auto* const sums = reinterpret_cast<float*>(scratch);
        float* const ordered = layout.ordered(scratch);
        if (dx.defined() && gathers_winners)
            for_ranges(
                shape_.in / gathered_slice,
                [&](std::int64_t begin, std::int64_t end) {
                    order_winner_weights(plan_, weight.as<float>(), begin, end, ordered);
                },
                weight_count() / shape_.in * gathered_slice);
        SumTree tree(parts);
        for_parts(parts, callers, [&](int caller, std::int64_t part) {
            float* const sum = sums + part * layout.sum_count;
            std::fill_n(sum, layout.sum_count, 0.0F);
            const Own own = layout.own(scratch, caller);
            const std::int64_t end = share_begin(batch, parts, part + 1);
            for (std::int64_t n = share_begin(batch, parts, part); n < end; ++n) {
                const std::int64_t out = n * plan_.windows() * plan_.out;
                const float* const gradient = dy.as<float>() + out;
                const unsigned char* const won = winner.as<unsigned char>() + out;
                list_winners(plan_, gradient, won, own.list, own.count);
                slice_image(plan_, x.as<float>() + n * image_count(), own.image);
                add_winner_gradients(plan_, own.image, own.list, own.count, sum,
                                     shape_.bias ? sum + weight_count() : nullptr);
                if (!dx.defined()) continue;
                std::fill_n(own.image, padded_count(), 0.0F);
                if (gathers_winners) {
                    list_passed(plan_, won, own.passed, own.count);
                    gather_winner_image_gradients(plan_, ordered, gradient, own.passed, own.count, own.image);
                } else {
                    scatter_winner_image_gradients(plan_, weight.as<float>(), own.list, own.count, own.image);
                }
                join_image(plan_, image_gradient_slice, own.image, dx.as<float>() + n * image_count());
            }
            tree.finish(part, [&](std::int64_t to, std::int64_t from) {
                add_to(sums + to * layout.sum_count, sums + from * layout.sum_count, layout.sum_count);
            });
            offer_progress();
        });
        const std::int64_t half = tree.second_half();
        const float* const second = half == 0 ? nullptr : sums + half * layout.sum_count;
        for_ranges(weight_count(), [&, to = dweight.as<float>()](std::int64_t begin, std::int64_t end) {
            put_sum(sums, second, begin, end, to);
        });
        if (shape_.bias)
            put_sum(sums + weight_count(), second ? second + weight_count() : nullptr, 0, shape_.out,
                    dbias.as<float>());
    }

  private:
    /// A caller's scratch. The lists lie at the same place: one is of use after the other.
    struct Own {
        float* image;
        Winner* list;
        std::uint16_t* passed;
        std::int32_t* count;
    };
    /// The sums of all parts and the ordered weights, then what each caller has of its own, in whole cache
    /// lines.
    struct Layout {
        Layout(const WinnerConv2d& op, std::int64_t parts)
            : sum_count(lines<float>(op.weight_count() + op.shape_.out)),
              image_bytes(bytes_of<float>(lines<float>(op.padded_count()))),
              list_bytes(std::max(
                  bytes_of<Winner>(lines<Winner>(op.plan_.out * op.plan_.windows())),
                  bytes_of<std::uint16_t>(lines<std::uint16_t>(4 * op.plan_.out * op.plan_.windows())))),
              own_bytes(image_bytes + list_bytes +
                        bytes_of<std::int32_t>(
                            lines<std::int32_t>(std::max(op.plan_.out, 4 * op.plan_.windows())))),
              sum_bytes(bytes_of<float>(parts * sum_count)),
              common_bytes(sum_bytes +
                           (gathers_winners ? bytes_of<float>(lines<float>(op.weight_count())) : 0)) {}
        std::size_t bytes(int callers) const {
            return common_bytes + static_cast<std::size_t>(callers) * own_bytes;
        }
        float* ordered(std::byte* scratch) const { return reinterpret_cast<float*>(scratch + sum_bytes); }
        Own own(std::byte* scratch, int caller) const {
            std::byte* const begin = scratch + common_bytes + static_cast<std::size_t>(caller) * own_bytes;
            return {reinterpret_cast<float*>(begin), reinterpret_cast<Winner*>(begin + image_bytes),
                    reinterpret_cast<std::uint16_t*>(begin + image_bytes),
                    reinterpret_cast<std::int32_t*>(begin + image_bytes + list_bytes)};
        }

        std::int64_t sum_count;  // dweight, then dbias
        std::size_t image_bytes, list_bytes, own_bytes, sum_bytes, common_bytes;

      private:
        template <class T>
        static std::int64_t lines(std::int64_t count) {
            constexpr std::int64_t in_line = 64 / sizeof(T);
            return (count + in_line - 1) / in_line * in_line;
        }
        template <class T>
        static std::size_t bytes_of(std::int64_t count) {
            return static_cast<std::size_t>(count) * sizeof(T);
        }
    };

    std::int64_t weight_count() const { return shape_.out * shape_.kernel_h * shape_.kernel_w * shape_.in; }
    std::int64_t image_count() const { return shape_.height * shape_.width * shape_.in; }
    std::int64_t padded_count() const { return shape_.in * plan_.pixels(); }

    static void add_to(float* __restrict to, const float* __restrict from, std::int64_t count) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
    }
    /// to[i] = first[i] + second[i] (null: none)
    static void put_sum(const float* first, const float* second, std::int64_t begin, std::int64_t end,
                        float* __restrict to) {
        if (!second) {
            std::copy(first + begin, first + end, to + begin);
            return;
        }
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) to[i] = first[i] + second[i];
    }

    const Conv2dShape shape_;
    const Pool2dShape pool_;
    const std::unique_ptr<Conv2dOp> convolution_;
    const std::shared_ptr<Workspace> workspace_, sums_;
    WinnerGradients plan_;
};

/// Where an image stays in the cache. Not by the instruction set, so that all machines fuse alike.
bool pays(const Conv2dShape& s, const Pool2dShape& pool) {
    constexpr std::int64_t most_elements = 64 * 1024;
    return s.kernel_h == 3 && s.kernel_w == 3 && s.groups == 1 && s.in % 16 == 0 && s.out <= most_passed &&
           pool.kernel_h == 2 && pool.kernel_w == 2 && pool.stride_h == 2 && pool.stride_w == 2 &&
           pool.padding_h == 0 && pool.padding_w == 0 &&
           (s.height + 2 * s.padding_h) * (s.width + 2 * s.padding_w) * s.in <= most_elements;
}

}  // namespace

std::unique_ptr<PooledConv2dOp> make_winner_conv2d(
    const Conv2dShape& shape, const Pool2dShape& pool, std::shared_ptr<Workspace> workspace,
    std::shared_ptr<Workspace> sums, const std::function<std::unique_ptr<Conv2dOp>()>& make_convolution) {
    check(shape);
    assert(pool.height == shape.out_height() && pool.width == shape.out_width() &&
           pool.channels == shape.out);
    if (!pays(shape, pool)) return nullptr;
    return std::make_unique<WinnerConv2d>(shape, pool, make_convolution(), std::move(workspace),
                                          std::move(sums));
}

}  // namespace tutti
