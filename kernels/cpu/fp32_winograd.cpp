// The input's gradient is a convolution of dy with the window turned around and padding of 2 − p, so both are
// one procedure. Of many tiles, some at a time are transformed and multiplied with all weights; few tiles are
// transformed once, and the weights some at a time, which are multiplied with all tiles while they are in the
// cache: transformed they are 36/9 as many.
//
//   weights  [slab of columns][product][strip of columns][summed channels][columns of the strip]; for few
//            tiles [product][some summed channels][columns of a strip]
//   tiles    [product][tile][summed channels]
//   sums     [product][tile][columns of a slab]

#include "fp32_winograd.hpp"

#include <algorithm>
#include <array>

#include "fp32_winograd_shares.hpp"
#include "fp32_winograd_tile.hpp"
#include "image_pixels.hpp"
#include "parallel.hpp"
#include "tile_product.hpp"
#include "tile_transpose.hpp"

namespace tutti {
namespace {

constexpr std::int64_t products = fp32_winograd_products, tile_output = fp32_winograd_output;
constexpr std::int64_t strip = fp32_winograd_strip;
/// A gap between products keeps them from lying a multiple of 4096 bytes apart, where they would push each
/// other out of the cache.
constexpr std::int64_t gap = 80;
/// Summed channels whose weights for a strip are transformed and multiplied at a time, where tiles are few:
/// 0.6 MB with vectors of 64 bytes, which the second-level cache keeps.
constexpr std::int64_t most_depth = 128;

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

/// Pairs of a place in the window and an output for which that place lies in the image, along one side.
std::int64_t inner_places(std::int64_t size, std::int64_t padding) {
    const std::int64_t outputs = size + 2 * padding - 2;
    std::int64_t inner = 0;
    for (std::int64_t place = 0; place < 3; ++place)
        inner += std::max<std::int64_t>(
            std::min(outputs, size + padding - place) - std::max<std::int64_t>(padding - place, 0), 0);
    return inner;
}

class WinogradConvolution {
  public:
    WinogradConvolution(const ImageShape& from, const ImageShape& to, std::int64_t padding_h,
                        std::int64_t padding_w, std::int64_t batch)
        : from_(from),
          to_(to),
          padding_h_(padding_h),
          padding_w_(padding_w),
          threads_(omp_get_max_threads()),
          tile_columns_(divided_up(to.width, tile_output)),
          image_tiles_(divided_up(to.height, tile_output) * tile_columns_),
          tiles_(batch * image_tiles_),
          shares_(tiles_, to.channels, threads_) {}

    /// Some columns, a strip at most, and of them some summed channels.
    struct Weights {
        std::int64_t column, columns, channel, channels;
    };
    /// transform(weights, to, step): writes these transformed, to[channels][columns]; product p begins p ·
    /// step behind it.
    template <class Transform>
    void execute(const float* from, const float* bias, float* to, Workspace& workspace,
                 const Transform& transform) const {
        float* const memory = workspace.reserve_elements<float>(static_cast<std::size_t>(size()));
        std::fill_n(memory, from_.channels, 0.0f);
        const Data data{memory, from, bias, to};
        float* const rest = memory + from_.channels;
        shares_.few ? execute_few(data, rest, transform) : execute_many(data, rest, transform);
    }

  private:
    struct Data {
        const float *zeros, *from, *bias;
        float* to;
    };

    int callers() const { return static_cast<int>(std::clamp<std::int64_t>(shares_.items, 1, threads_)); }
    std::int64_t slabs() const { return divided_up(to_.channels, shares_.slab); }
    std::int64_t slab_columns(std::int64_t number) const {
        return std::min(shares_.slab, to_.channels - number * shares_.slab);
    }
    /// Of weights of a slab of so many columns.
    std::int64_t product_step(std::int64_t columns) const { return from_.channels * columns + gap; }
    std::int64_t weights_size() const { return products * product_step(shares_.slab); }  // of a slab
    std::int64_t depth_step() const { return std::min(from_.channels, most_depth) * strip + gap; }
    std::int64_t tiles_step() const { return shares_.tiles_at_once * from_.channels + gap; }
    std::int64_t sums_step() const {
        return shares_.tiles_at_once * std::min(shares_.slab, to_.channels) + gap;
    }
    std::int64_t size() const {
        const std::int64_t tiles = products * tiles_step(), sums = products * sums_step();
        return from_.channels + (shares_.few
                                     ? tiles + std::min(threads_, slabs()) * (products * depth_step() + sums)
                                     : slabs() * weights_size() + threads_ * (tiles + sums));
    }

    /// Threads share the tiles, then the strips of columns.
    template <class Transform>
    void execute_few(const Data& data, float* tiles, const Transform& transform) const {
        for_ranges(
            tiles_,
            [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t tile = begin; tile < end; ++tile)
                    read(tile, data, tiles + tile * from_.channels);
            },
            products * from_.channels);
        float* const scratch = tiles + products * tiles_step();
        const std::int64_t each = products * (depth_step() + sums_step());
        for_parts(shares_.items, callers(), [&](int caller, std::int64_t number) {
            float* const weights = scratch + caller * each;
            float* const sums = weights + products * depth_step();
            const std::int64_t columns = slab_columns(number), all = from_.channels;
            for (std::int64_t channel = 0; channel < all; channel += most_depth) {
                const std::int64_t depth = std::min(most_depth, all - channel);
                transform(Weights{number * strip, columns, channel, depth}, weights, depth_step());
                for (std::int64_t p = 0; p < products; ++p)
                    multiply_tiles(
                        tiles_, columns, depth, TileView<float>{tiles + p * tiles_step() + channel, all, 1},
                        weights + p * depth_step(), columns, sums + p * sums_step(), columns, channel > 0);
            }
            for (std::int64_t tile = 0; tile < tiles_; ++tile)
                write(tile, sums + tile * columns, number * strip, columns, data);
            offer_progress();
        });
    }

    /// Threads share blocks of tiles.
    template <class Transform>
    void execute_many(const Data& data, float* weights, const Transform& transform) const {
        const std::int64_t strips = divided_up(to_.channels, strip);
        for_ranges(
            strips,
            [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t s = begin; s < end; ++s) {
                    const std::int64_t column = s * strip, number = column / shares_.slab;
                    transform(Weights{column, std::min(strip, to_.channels - column), 0, from_.channels},
                              weights + number * weights_size() + column % shares_.slab * from_.channels,
                              product_step(slab_columns(number)));
                }
            },
            9 * strip * from_.channels);
        float* const scratch = weights + slabs() * weights_size();
        const std::int64_t each = products * (tiles_step() + sums_step());
        const std::int64_t size = shares_.tiles_at_once;
        for_parts(shares_.items, callers(), [&](int caller, std::int64_t block) {
            compute(block * size, std::min((block + 1) * size, tiles_), weights, scratch + caller * each,
                    data);
            offer_progress();
        });
    }

    void compute(std::int64_t begin, std::int64_t end, const float* weights, float* tiles,
                 const Data& data) const {
        for (std::int64_t tile = begin; tile < end; ++tile)
            read(tile, data, tiles + (tile - begin) * from_.channels);
        for (std::int64_t number = 0; number < slabs(); ++number)
            multiply_slab(number, begin, end, tiles, weights + number * weights_size(),
                          tiles + products * tiles_step(), data);
    }

    void multiply_slab(std::int64_t number, std::int64_t begin, std::int64_t end, const float* tiles,
                       const float* weights, float* sums, const Data& data) const {
        const std::int64_t columns = slab_columns(number), inner = from_.channels;
        for (std::int64_t p = 0; p < products; ++p)
            for (std::int64_t c = 0; c < columns; c += strip) {
                const std::int64_t count = std::min(strip, columns - c);
                multiply_tiles(end - begin, count, inner, TileView<float>{tiles + p * tiles_step(), inner, 1},
                               weights + p * product_step(columns) + c * inner, count,
                               sums + p * sums_step() + c, columns, false);
            }
        for (std::int64_t tile = begin; tile < end; ++tile)
            write(tile, sums + (tile - begin) * columns, number * shares_.slab, columns, data);
    }

    void read(std::int64_t tile, const Data& data, float* to) const {
        const std::int64_t in_image = tile % image_tiles_;
        const float* const image = data.from + tile / image_tiles_ * from_.size();
        const std::int64_t top = in_image / tile_columns_ * tile_output - padding_h_;
        const std::int64_t left = in_image % tile_columns_ * tile_output - padding_w_;
        std::array<const float*, fp32_winograd_input * fp32_winograd_input> pixels;
        find_pixels(image, from_, top, left, fp32_winograd_input, data.zeros, pixels.data());
        transform_fp32_winograd_pixels(pixels.data(), 0, from_.channels, to, tiles_step());
    }

    void write(std::int64_t tile, const float* sums, std::int64_t channel, std::int64_t channels,
               const Data& data) const {
        const std::int64_t in_image = tile % image_tiles_;
        float* const image = data.to + tile / image_tiles_ * to_.size() + channel;
        const std::int64_t top = in_image / tile_columns_ * tile_output;
        const std::int64_t left = in_image % tile_columns_ * tile_output;
        std::array<float*, tile_output * tile_output> pixels;
        auto* pixel = pixels.data();
        for (std::int64_t row = top; row < top + tile_output; ++row)
            for (std::int64_t column = left; column < left + tile_output; ++column)
                *pixel++ = row < to_.height && column < to_.width
                               ? image + (row * to_.width + column) * to_.channels
                               : nullptr;
        transform_fp32_winograd_sums(sums, sums_step(), channels, data.bias ? data.bias + channel : nullptr,
                                     pixels.data());
    }

    const ImageShape from_, to_;
    const std::int64_t padding_h_, padding_w_, threads_, tile_columns_, image_tiles_, tiles_;
    const Fp32WinogradShares shares_;
};

}  // namespace

bool takes_fp32_winograd(const Conv2dShape& s) {
    constexpr std::int64_t least = 16;
    if (s.kernel_h != 3 || s.kernel_w != 3 || s.stride_h != 1 || s.stride_w != 1 || s.padding_h > 2 ||
        s.padding_w > 2 || s.groups != 1 || s.in < least || s.out < least || s.in % lanes<float> != 0 ||
        s.out % lanes<float> != 0)
        return false;
    // In multiplications of the library's direct products, which leave out the padding, measured on one core
    // of Zen 3: those of a tile, and the transforms of a tile's channel with their ways through the caches.
    constexpr std::int64_t tile_products = 38, tile_cost = 530;
    const std::int64_t tiles =
        divided_up(s.out_height(), tile_output) * divided_up(s.out_width(), tile_output);
    const std::int64_t direct = inner_places(s.height, s.padding_h) * inner_places(s.width, s.padding_w);
    return tiles * (tile_products * s.in * s.out + tile_cost * (s.in + s.out)) <
           direct * s.in * s.out / 10 * 9;
}

void fp32_winograd_forward(const Conv2dShape& s, std::int64_t batch, const float* x, const float* weight,
                           const float* bias, float* y, Workspace& workspace) {
    const WinogradConvolution work({s.height, s.width, s.in}, {s.out_height(), s.out_width(), s.out},
                                   s.padding_h, s.padding_w, batch);
    const auto transform = [&](const WinogradConvolution::Weights& of, float* to, std::int64_t step) {
        constexpr std::int64_t inputs_at_once = 2 * lanes<float>;
        float places[9 * inputs_at_once * strip];
        for (std::int64_t i = 0; i < of.channels; i += inputs_at_once) {
            const std::int64_t inputs = std::min(inputs_at_once, of.channels - i), size = inputs * of.columns;
            for (std::int64_t place = 0; place < 9; ++place)
                transpose_tile(weight + (of.column * 9 + place) * s.in + of.channel + i, 9 * s.in, of.columns,
                               inputs, 1.0f, places + place * size);
            transform_fp32_winograd_windows(places, size, size, to + i * of.columns, step);
        }
    };
    work.execute(x, bias, y, workspace, transform);
}

void fp32_winograd_backward_data(const Conv2dShape& s, std::int64_t batch, const float* weight,
                                 const float* dy, float* dx, Workspace& workspace) {
    const WinogradConvolution work({s.out_height(), s.out_width(), s.out}, {s.height, s.width, s.in},
                                   2 - s.padding_h, 2 - s.padding_w, batch);
    const auto transform = [&](const WinogradConvolution::Weights& of, float* to, std::int64_t step) {
        for (std::int64_t o = 0; o < of.channels; ++o)  // the last place first: turned around
            transform_fp32_winograd_windows(weight + ((of.channel + o) * 9 + 8) * s.in + of.column, -s.in,
                                            of.columns, to + o * of.columns, step);
    };
    work.execute(dy, nullptr, dx, workspace, transform);
}

}  // namespace tutti
