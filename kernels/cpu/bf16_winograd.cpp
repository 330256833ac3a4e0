// The input's gradient is a convolution of dy with the window turned around and padding of 2 − p, so both are
// one procedure: some tiles at a time are transformed and multiplied with all weights, slab of columns after
// slab, while they are in the cache.
//
//   weights  as bf16_winograd_weights.hpp has them
//   tiles    [product][tile][pairs of the summed channels]
//   sums     [product][tile][columns of a slab]

#include "bf16_winograd.hpp"

#include <algorithm>
#include <array>

#include "bf16_winograd_weights.hpp"
#include "image_pixels.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

constexpr std::int64_t slab = WinogradWeights::slab;

class WinogradConvolution {
  public:
    WinogradConvolution(const ImageShape& from, const ImageShape& to, std::int64_t padding_h,
                        std::int64_t padding_w)
        : from_(from), to_(to), padding_h_(padding_h), padding_w_(padding_w) {}

    /// What a thread needs besides; both in elements of 4 bytes, the zeros first, which take part in it.
    std::int64_t scratch_size() const {
        return from_.channels + winograd_products * (tiles_step() + sums_step());
    }

    const WinogradWeights& weights() const { return weights_; }

    template <class Value>
    void execute(std::int64_t batch, const Value* from, const Bf16Pair* weights, const float* bias, Value* to,
                 float* scratch) const {
        const std::int64_t all = batch * image_tiles();
        const std::int64_t blocks = (all + at_once - 1) / at_once;
        const int threads = omp_get_max_threads();
        const std::int64_t block_cost = at_once * winograd_products * from_.channels * to_.channels;
        const std::int64_t parts = uneven_parts_of(blocks, block_cost, threads, threads);
        for (std::int64_t part = 0; part < parts; ++part) {
            const std::int64_t first = share_begin(blocks, parts, part);
            const std::int64_t count = share_begin(blocks, parts, part + 1) - first;
            for_shares(count, std::min<std::int64_t>(count, threads),
                       [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
                           for (std::int64_t block = first + begin; block < first + end; ++block)
                               compute(block * at_once, std::min((block + 1) * at_once, all), all, from,
                                       weights, bias, to, scratch + share * scratch_size());
                       });
        }
    }

  private:
    /// Tiles: 8 blocks of as many rows as the product's sums have.
    static constexpr std::int64_t at_once = 48;
    /// A gap between products keeps them from lying a multiple of 4096 bytes apart, where they would push
    /// each other out of the cache.
    static constexpr std::int64_t gap = 5 * bf16_lanes;
    std::int64_t tiles_step() const { return at_once * from_.channels / 2 + gap; }
    std::int64_t sums_step() const { return at_once * std::min(slab, to_.channels) + gap; }

    std::int64_t tile_columns() const { return (to_.width + 1) / 2; }
    std::int64_t image_tiles() const { return (to_.height + 1) / 2 * tile_columns(); }

    template <class Value>
    void compute(std::int64_t begin, std::int64_t end, std::int64_t all, const Value* from,
                 const Bf16Pair* weights, const float* bias, Value* to, float* scratch) const {
        auto* const zeros = reinterpret_cast<Value*>(scratch);
        float* const sums = scratch + from_.channels;
        auto* const tiles = reinterpret_cast<Bf16Pair*>(sums + winograd_products * sums_step());
        const std::int64_t pairs = from_.channels / 2;
        std::fill_n(zeros, from_.channels, Value(0));
        for (std::int64_t tile = begin; tile < end; ++tile)
            read(tile, from, zeros, tiles + (tile - begin) * pairs);
        // While these are multiplied, the next tiles' pixels come into the cache.
        MemoryAhead ahead{{pixels_ahead(from, from_, end, all), pixels_ahead(to, to_, end, all)}};
        for (std::int64_t column = 0; column < to_.channels; column += slab) {
            const WinogradWeights::Place right = weights_.place(column);
            const PairRuns runs{1, pairs, 0, 0, 1, right.pair_step, pairs};
            for (std::int64_t p = 0; p < winograd_products; ++p)
                multiply_bf16_pairs(end - begin, right.pair_step, runs, tiles + p * tiles_step(),
                                    weights + right.at + p * right.product_step,
                                    {sums + p * sums_step(), right.pair_step, false, nullptr, &ahead});
            for (std::int64_t tile = begin; tile < end; ++tile)
                write(tile, sums + (tile - begin) * right.pair_step, column, right.pair_step,
                      bias ? bias + column : nullptr, to);
        }
    }

    /// About the pixels of `image`s behind those of the tiles up to `tile`, as many as the next tiles have.
    template <class Value>
    MemoryAhead::Range pixels_ahead(const Value* images, const ImageShape& image, std::int64_t tile,
                                    std::int64_t all) const {
        constexpr std::int64_t line = 64 / sizeof(Value);
        const auto offset = [&](std::int64_t of) {
            return of / image_tiles() * image.size() + of % image_tiles() * image.size() / image_tiles();
        };
        const std::int64_t begin = offset(tile), end = offset(std::min(tile + at_once, all));
        return {images + begin, (end - begin) / line};
    }

    template <class Value>
    void read(std::int64_t tile, const Value* from, const Value* zeros, Bf16Pair* to) const {
        const std::int64_t in_image = tile % image_tiles();
        const Value* const image = from + tile / image_tiles() * from_.size();
        const std::int64_t top = in_image / tile_columns() * 2 - padding_h_;
        const std::int64_t left = in_image % tile_columns() * 2 - padding_w_;
        std::array<const Value*, 16> pixels;
        find_pixels(image, from_, top, left, 4, zeros, pixels.data());
        transform_winograd_pixels(pixels.data(), from_.channels, to, tiles_step());
    }

    template <class Value>
    void write(std::int64_t tile, const float* sums, std::int64_t channel, std::int64_t channels,
               const float* bias, Value* to) const {
        const std::int64_t in_image = tile % image_tiles();
        Value* const image = to + tile / image_tiles() * to_.size() + channel;
        const std::int64_t top = in_image / tile_columns() * 2, left = in_image % tile_columns() * 2;
        std::array<Value*, 4> pixels;
        find_pixels(image, to_, top, left, 2, static_cast<Value*>(nullptr), pixels.data());
        transform_winograd_sums(sums, sums_step(), channels, bias, pixels.data());
    }

    const ImageShape from_, to_;
    const WinogradWeights weights_{from_.channels, to_.channels};
    const std::int64_t padding_h_, padding_w_;
};

/// Transforms the weights and convolves. transform(work, to): writes the weights' pairs.
template <class Value, class Transform>
void convolve(const WinogradConvolution& work, std::int64_t batch, const Value* from, const float* bias,
              Value* to, Workspace& workspace, const Transform& transform) {
    with_winograd_weights(work.weights(), work.scratch_size(), workspace, transform,
                          [&](const Bf16Pair* weights, float* scratch) {
                              work.execute(batch, from, weights, bias, to, scratch);
                          });
}

}  // namespace

bool takes_bf16_winograd(const Conv2dShape& s) {
    return s.stride_h == 1 && s.stride_w == 1 && suits_winograd_weights(s);
}

template <class Value>
void bf16_winograd_forward(const Conv2dShape& s, std::int64_t batch, const Value* x, const float* weight,
                           const float* bias, Value* y, Workspace& workspace) {
    const WinogradConvolution work({s.height, s.width, s.in}, {s.out_height(), s.out_width(), s.out},
                                   s.padding_h, s.padding_w);
    convolve(work, batch, x, bias, y, workspace,
             [&](Bf16Pair* to) { transform_weights_for_outputs(WindowTransform::winograd, s, weight, to); });
}

template <class Value>
void bf16_winograd_backward_data(const Conv2dShape& s, std::int64_t batch, const float* weight,
                                 const Value* dy, Value* dx, Workspace& workspace) {
    const WinogradConvolution work({s.out_height(), s.out_width(), s.out}, {s.height, s.width, s.in},
                                   2 - s.padding_h, 2 - s.padding_w);
    convolve(work, batch, dy, nullptr, dx, workspace,
             [&](Bf16Pair* to) { transform_weights_for_inputs(WindowTransform::winograd, s, weight, to); });
}

template void bf16_winograd_forward(const Conv2dShape&, std::int64_t, const float*, const float*,
                                    const float*, float*, Workspace&);
template void bf16_winograd_backward_data(const Conv2dShape&, std::int64_t, const float*, const float*,
                                          float*, Workspace&);
template void bf16_winograd_forward(const Conv2dShape&, std::int64_t, const std::uint16_t*, const float*,
                                    const float*, std::uint16_t*, Workspace&);
template void bf16_winograd_backward_data(const Conv2dShape&, std::int64_t, const float*,
                                          const std::uint16_t*, std::uint16_t*, Workspace&);

}  // namespace tutti
