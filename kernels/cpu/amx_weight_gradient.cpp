// dweight[o, tap, i] = Σ over images and pixels of dy[pixel, o] · x[pixel + tap, i]. The unit sums over
// pairs, which here are the same pixel of two images: so x has one layout for all taps, as in
// amx_convolution.cpp, and dy, which is turned, has zeros where x has what lies between rows:
//
//   left   [O][pair of images][pixel]
//   right  [slab of I][plane][pair of images][pixel][channels of the slab]
//
// Some pairs of images at a time are packed and then multiplied while they are in the cache.

#include "amx_weight_gradient.hpp"

#include <algorithm>
#include <span>

#include "../common/counts.hpp"
#include "amx_products.hpp"
#include "bf16_pairs.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

constexpr std::int64_t slab = bf16_lanes * most_bf16_vectors;
/// Two things to be summed over together; there may be no second.
template <class T>
struct Couple {
    const T *first, *second;
    Couple at(std::int64_t offset) const { return {first + offset, second ? second + offset : nullptr}; }
};

struct GradientSizes {
    std::int64_t out, in;
    std::int64_t pitch;          ///< pixels from a pair of images to the next
    std::int64_t last, in_last;  ///< of the last pair: pixels of outputs, and of inputs in a plane
    std::int64_t planes;

    std::int64_t pixels(std::int64_t pairs) const { return (pairs - 1) * pitch + last; }
    std::int64_t plane_pixels(std::int64_t pairs) const { return (pairs - 1) * pitch + in_last; }
    /// Of left. An odd number of cache lines: of rows a multiple of 4096 bytes apart the cache holds few.
    std::int64_t left_row(std::int64_t pairs) const {
        const std::int64_t vectors = (pixels(pairs) + bf16_lanes - 1) / bf16_lanes;
        return (vectors | 1) * bf16_lanes;
    }
    std::int64_t slab_width(std::int64_t channel) const { return std::min(slab, in - channel); }
    /// Where the slab that begins with this channel begins, of so many pairs of images.
    std::int64_t slab_at(std::int64_t pairs, std::int64_t channel) const {
        return planes * plane_pixels(pairs) * channel;
    }

    /// So many that they stay in a core's cache, but at least as many as make the sums, which are read and
    /// written for each, the lesser part.
    std::int64_t pairs_at_once(std::int64_t pairs, std::int64_t taps) const {
        constexpr std::int64_t cache_pairs = (std::int64_t{1} << 20) / sizeof(Bf16Pair);
        const std::int64_t size = pitch * (out + planes * in);
        return std::clamp<std::int64_t>(std::max(cache_pairs, out * taps * in) / size, 1, pairs);
    }
};

/// Cuts dweight, of which each part is one thread's alone.
class GradientItems {
  public:
    GradientItems(const GradientSizes& sizes, std::span<const GradientTap> taps, std::int64_t threads)
        : sizes_(sizes), taps_(taps) {
        constexpr std::int64_t most = 128, least = 32, enough = 4;
        for (rows_ = most; rows_ > least && threads > 1 && count() < enough * threads;) rows_ /= 2;
    }
    std::int64_t count() const {
        return divided_up(sizes_.out, rows_) * divided_up(sizes_.in, slab) * taps();
    }

    /// Of `pairs`, packed as the first of at_once.
    void multiply(std::int64_t item, std::int64_t pairs, std::int64_t at_once, const Bf16Pair* left,
                  const Bf16Pair* right, float* dweight, bool add) const {
        const std::int64_t slabs = divided_up(sizes_.in, slab), tap = item % taps();
        const std::int64_t in = item / taps() % slabs * slab, out = item / taps() / slabs * rows_;
        const std::int64_t width = sizes_.slab_width(in), row = sizes_.left_row(at_once);
        const GradientTap& at = taps_[static_cast<std::size_t>(tap)];
        const std::int64_t start = at.plane * sizes_.plane_pixels(at_once) + at.offset;
        const PairRuns runs{1, sizes_.pixels(pairs), 0, 0, 1, width, row};
        multiply_amx_pairs(std::min(rows_, sizes_.out - out), width, runs, left + out * row,
                           right + sizes_.slab_at(at_once, in) + start * width,
                           {dweight + (out * taps() + tap) * sizes_.in + in, taps() * sizes_.in, add});
    }

  private:
    std::int64_t taps() const { return static_cast<std::int64_t>(taps_.size()); }

    const GradientSizes& sizes_;
    const std::span<const GradientTap> taps_;
    std::int64_t rows_ = 0;
};

/// dweight, of `pairs` of images. pack(pair, left, right, bias_part) packs one: row after row of `left`,
/// left_row apart; right(plane, channel): where its first pixel lies in the slab of this channel; bias_part:
/// sums of dy are added there, null where not wanted.
template <class Pack>
void sum_gradient(const GradientSizes& sizes, std::span<const GradientTap> taps, std::int64_t pairs,
                  float* dweight, float* dbias, bool add, Workspace& workspace, const Pack& pack) {
    const std::int64_t at_once = sizes.pairs_at_once(pairs, static_cast<std::int64_t>(taps.size()));
    const std::int64_t left_row = sizes.left_row(at_once), left_size = sizes.out * left_row;
    const std::int64_t packed_size =
        left_size + divided_up(sizes.slab_at(at_once, sizes.in), bf16_lanes) * bf16_lanes;
    const std::int64_t bias_size = dbias ? at_once * sizes.out : 0;
    auto* const left =
        workspace.reserve_elements<Bf16Pair>(static_cast<std::size_t>(packed_size + bias_size));
    Bf16Pair* const right = left + left_size;
    auto* const bias_parts = reinterpret_cast<float*>(left + packed_size);
    for_ranges(packed_size, [&](std::int64_t begin, std::int64_t end) {
        std::fill_n(left + begin, end - begin, Bf16Pair{0});
    });
    if (dbias && !add) std::fill_n(dbias, sizes.out, 0.0f);

    const std::int64_t threads = omp_get_max_threads();
    const GradientItems items(sizes, taps, threads);
    for (std::int64_t first = 0; first < pairs; first += at_once, add = true) {
        const std::int64_t count = std::min(at_once, pairs - first);
        std::fill_n(bias_parts, dbias ? count * sizes.out : 0, 0.0f);
        for_shares(count, std::min(count, threads), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const auto at = [&](std::int64_t plane, std::int64_t channel) {
                    const std::int64_t pixel = plane * sizes.plane_pixels(at_once) + i * sizes.pitch;
                    return right + sizes.slab_at(at_once, channel) + pixel * sizes.slab_width(channel);
                };
                pack(first + i, left + i * sizes.pitch, left_row, at,
                     dbias ? bias_parts + i * sizes.out : nullptr);
            }
        });
        for (std::int64_t i = 0; dbias && i < count; ++i)
            for (std::int64_t o = 0; o < sizes.out; ++o) dbias[o] += bias_parts[i * sizes.out + o];
        for_shares(items.count(), std::min(items.count(), threads),
                   [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t item = begin; item < end; ++item)
                           items.multiply(item, count, at_once, left, right, dweight, add);
                   });
    }
}

/// `times` pixels, `step` numbers apart, into all slabs of channels. to(channel): where its slab begins, and
/// the pixels' place in it.
template <class To>
void pair_pixels(const Couple<float>& from, std::int64_t channels, std::int64_t times, std::int64_t step,
                 std::int64_t place, const To& to) {
    const std::int64_t slabs = channels / slab, rest = slabs * slab;
    if (slabs > 0)
        make_bf16_pairs_in_slabs(from.first, from.second, slab, slabs, times, step, to(0) + place * slab,
                                 slabs > 1 ? to(slab) - to(0) : 0);
    if (rest == channels) return;
    const Couple<float> last = from.at(rest);
    make_bf16_pairs(last.first, last.second, channels - rest, times, step,
                    to(rest) + place * (channels - rest));
}

}  // namespace

AmxWeightGradient::AmxWeightGradient(const Conv2dShape& s)
    : shape_(s),
      rows_(TapAxis::forward(s.height, s.kernel_h, s.stride_h, s.padding_h)),
      columns_(TapAxis::forward(s.width, s.kernel_w, s.stride_w, s.padding_w)) {
    for (const TapAxis::Tap& y : rows_.grids.front().taps)
        for (const TapAxis::Tap& x : columns_.grids.front().taps)
            taps_.push_back({y.plane * columns_.planes + x.plane, y.offset * columns_.pitch + x.offset});
}

void AmxWeightGradient::compute(std::int64_t batch, const float* x, const float* dy, float* dweight,
                                float* dbias, Workspace& workspace) const {
    const std::int64_t height = shape_.out_height(), width = shape_.out_width(), pitch = columns_.pitch;
    const std::int64_t planes = rows_.planes * columns_.planes;
    const GradientSizes sizes{shape_.out,
                              shape_.in,
                              rows_.pitch * pitch,
                              (height - 1) * pitch + width,
                              rows_.reach * pitch + columns_.reach,
                              planes};
    const std::int64_t x_size = shape_.height * shape_.width * shape_.in,
                       dy_size = height * width * shape_.out;
    const auto couple = [batch](const float* all, std::int64_t size, std::int64_t pair) {
        const float* const first = all + 2 * pair * size;
        return Couple<float>{first, 2 * pair + 1 < batch ? first + size : nullptr};
    };
    const auto pack = [&](std::int64_t pair, Bf16Pair* left, std::int64_t left_row, const auto& right,
                          float* bias_part) {
        RoundedRows also;
        also.sums = bias_part;
        for (std::int64_t row = 0; row < height; ++row) {
            const auto of = couple(dy, dy_size, pair).at(row * width * shape_.out);
            turn_bf16_pairs(of.first, of.second, shape_.out, width, shape_.out, left + row * pitch, left_row,
                            also);
        }
        for (std::int64_t plane = 0; plane < planes; ++plane) {
            const std::int64_t down = plane / columns_.planes, across = plane % columns_.planes;
            const std::int64_t column = columns_.first_in(across), count = columns_.count_in(across);
            if (count == 0) continue;
            const auto to = [&](std::int64_t channel) { return right(plane, channel); };
            for (std::int64_t row = rows_.first_in(down); row < rows_.from; row += rows_.planes)
                pair_pixels(couple(x, x_size, pair).at((row * shape_.width + column) * shape_.in), shape_.in,
                            count, columns_.planes * shape_.in,
                            rows_.place_of(row) * pitch + columns_.place_of(column), to);
        }
    };
    sum_gradient(sizes, taps_, divided_up(batch, 2), dweight, dbias, false, workspace, pack);
}

void amx_linear_weight_gradient(const LinearShape& shape, std::int64_t rows, const float* x, const float* dy,
                                float* dweight, const GradientOfOutput& also, Workspace& workspace) {
    // Some rows are the pixels of an image.
    constexpr std::int64_t most = 128;
    constexpr GradientTap tap{0, 0};
    bool add = false;
    const auto compute = [&](std::int64_t first, std::int64_t images, std::int64_t pixels) {
        if (images * pixels == 0) return;
        const auto couple = [&](const float* all, std::int64_t width, std::int64_t pair) {
            const float* const from = all + (first + 2 * pair * pixels) * width;
            return Couple<float>{from, 2 * pair + 1 < images ? from + pixels * width : nullptr};
        };
        const auto pack = [&](std::int64_t pair, Bf16Pair* left, std::int64_t left_row, const auto& right,
                              float* bias_part) {
            const Couple<float> gradients = couple(dy, shape.out, pair);
            RoundedRows rounded;
            rounded.sums = bias_part;
            if (also.rounded) rounded.first = also.rounded + (gradients.first - dy);
            turn_bf16_pairs(gradients.first, gradients.second, shape.out, pixels, shape.out, left, left_row,
                            rounded);
            pair_pixels(couple(x, shape.in, pair), shape.in, pixels, shape.in, 0,
                        [&](std::int64_t channel) { return right(0, channel); });
        };
        sum_gradient({shape.out, shape.in, pixels, pixels, pixels, 1}, {&tap, 1}, divided_up(images, 2),
                     dweight, also.bias, add, workspace, pack);
        add = true;
    };
    const std::int64_t whole = rows / (2 * most) * 2 * most, half = (rows - whole) / 2;
    compute(0, whole / most, most);
    compute(whole, 2, half);
    compute(whole + 2 * half, rows - whole - 2 * half, 1);
}

}  // namespace tutti
