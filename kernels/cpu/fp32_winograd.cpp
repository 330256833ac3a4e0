// The input's gradient is a convolution of dy with the window turned around and padding of 2 − p, so both are
// one procedure. Where windows move by 2, the phases of x (fp32_winograd_window.hpp) are further channels: of
// what is summed in forward, of the results in backward. Of many tiles, some at a time are transformed and
// multiplied with all weights; few tiles are transformed once, and the weights some at a time, which are
// multiplied with all tiles while they are in the cache: transformed they are 36/9 as many.
//
//   weights  [slab of columns][product][strip of columns][summed channels][columns of the strip]; for few
//            tiles [product][some summed channels][columns of a strip]
//   tiles    [product][tile][summed channels]
//   sums     [product][tile][columns of a slab]

#include "fp32_winograd.hpp"

#include <algorithm>
#include <array>

#include "../common/counts.hpp"
#include "fp32_winograd_shares.hpp"
#include "fp32_winograd_tile.hpp"
#include "fp32_winograd_window.hpp"
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

/// Pairs of a place in the window and an output for which that place lies in the image, along one side.
std::int64_t inner_places(std::int64_t size, std::int64_t outputs, std::int64_t padding,
                          const Fp32WinogradWindow& window) {
    std::int64_t inner = 0;
    for (std::int64_t place = 0; place < window.size; ++place)
        for (std::int64_t output = 0; output < outputs; ++output) {
            const std::int64_t pixel = output * window.step + place - padding;
            inner += pixel >= 0 && pixel < size;
        }
    return inner;
}

/// The window's convolution, or, turned around, its gradient with respect to the image. Channels of the side
/// that is in phases are those of one phase behind the other.
class WinogradConvolution {
  public:
    WinogradConvolution(const Fp32WinogradWindow& window, bool turned, const ImageShape& from,
                        const ImageShape& to, std::int64_t padding_h, std::int64_t padding_w,
                        std::int64_t batch)
        : window_(window),
          turned_(turned),
          used_(window.used_products(turned)),
          from_(from),
          to_(to),
          padding_h_(padding_h),
          padding_w_(padding_w),
          channels_(from.channels * (turned ? 1 : window.phases())),
          columns_(to.channels * (turned ? window.phases() : 1)),
          threads_(omp_get_max_threads()),
          tile_columns_(tiles_along(to.width)),
          image_tiles_(tiles_along(to.height) * tile_columns_),
          tiles_(batch * image_tiles_),
          shares_(tiles_, columns_, threads_) {}

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

    std::int64_t tiles_along(std::int64_t side) const {
        return divided_up(side, tile_output * (turned_ ? window_.step : 1));
    }
    bool uses(std::int64_t phase, std::int64_t p) const {
        return (used_[static_cast<std::size_t>(phase)] >> p & 1) != 0;
    }
    int callers() const { return static_cast<int>(std::clamp<std::int64_t>(shares_.items, 1, threads_)); }
    std::int64_t slabs() const { return divided_up(columns_, shares_.slab); }
    std::int64_t slab_columns(std::int64_t number) const {
        return std::min(shares_.slab, columns_ - number * shares_.slab);
    }
    /// Of weights of a slab of so many columns.
    std::int64_t product_step(std::int64_t columns) const { return channels_ * columns + gap; }
    std::int64_t weights_size() const { return products * product_step(shares_.slab); }  // of a slab
    std::int64_t depth_step() const { return std::min(channels_, most_depth) * strip + gap; }
    std::int64_t tiles_step() const { return shares_.tiles_at_once * channels_ + gap; }
    std::int64_t sums_step() const { return shares_.tiles_at_once * std::min(shares_.slab, columns_) + gap; }
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
                    read(tile, data, tiles + tile * channels_);
            },
            products * channels_);
        float* const scratch = tiles + products * tiles_step();
        const std::int64_t each = products * (depth_step() + sums_step());
        for_parts(shares_.items, callers(), [&](int caller, std::int64_t number) {
            float* const weights = scratch + caller * each;
            float* const sums = weights + products * depth_step();
            const std::int64_t columns = slab_columns(number);
            for (std::int64_t channel = 0; channel < channels_; channel += most_depth) {
                const Weights some{number * strip, columns, channel,
                                   std::min(most_depth, channels_ - channel)};
                transform(some, weights, depth_step());
                for (std::int64_t p = 0; p < products; ++p)
                    multiply(p, some, tiles_, tiles + p * tiles_step(), weights + p * depth_step(),
                             sums + p * sums_step(), columns);
            }
            for (std::int64_t tile = 0; tile < tiles_; ++tile)
                write(tile, sums + tile * columns, number * strip, columns, data);
            offer_progress();
        });
    }

    /// Threads share blocks of tiles.
    template <class Transform>
    void execute_many(const Data& data, float* weights, const Transform& transform) const {
        const std::int64_t strips = divided_up(columns_, strip);
        for_ranges(
            strips,
            [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t s = begin; s < end; ++s) {
                    const std::int64_t column = s * strip, number = column / shares_.slab;
                    transform(Weights{column, std::min(strip, columns_ - column), 0, channels_},
                              weights + number * weights_size() + column % shares_.slab * channels_,
                              product_step(slab_columns(number)));
                }
            },
            9 * strip * channels_);
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
            read(tile, data, tiles + (tile - begin) * channels_);
        for (std::int64_t number = 0; number < slabs(); ++number)
            multiply_slab(number, begin, end, tiles, weights + number * weights_size(),
                          tiles + products * tiles_step(), data);
    }

    void multiply_slab(std::int64_t number, std::int64_t begin, std::int64_t end, const float* tiles,
                       const float* weights, float* sums, const Data& data) const {
        const std::int64_t columns = slab_columns(number);
        for (std::int64_t p = 0; p < products; ++p)
            for (std::int64_t c = 0; c < columns; c += strip)
                multiply(p, {number * shares_.slab + c, std::min(strip, columns - c), 0, channels_},
                         end - begin, tiles + p * tiles_step(),
                         weights + p * product_step(columns) + c * channels_, sums + p * sums_step() + c,
                         columns);
        for (std::int64_t tile = begin; tile < end; ++tile)
            write(tile, sums + (tile - begin) * columns, number * shares_.slab, columns, data);
    }

    /// sums[tiles, of.columns] = tiles · weights, or += behind the first channels; without the phases for
    /// which the weights of product p are 0.
    void multiply(std::int64_t p, const Weights& of, std::int64_t tiles, const float* transformed,
                  const float* weights, float* sums, std::int64_t sums_row) const {
        bool add = of.channel > 0;
        const auto multiply_channels = [&](std::int64_t begin, std::int64_t end) {
            multiply_tiles(tiles, of.columns, end - begin, TileView<float>{transformed + begin, channels_, 1},
                           weights + (begin - of.channel) * of.columns, of.columns, sums, sums_row, add);
            add = true;
        };
        const std::int64_t end = of.channel + of.channels;
        if (turned_) {
            if (uses(of.column / to_.channels, p)) multiply_channels(of.channel, end);
        } else {
            for (std::int64_t begin = of.channel; begin < end;) {
                const std::int64_t phase = begin / from_.channels;
                const std::int64_t next = std::min(end, (phase + 1) * from_.channels);
                if (uses(phase, p)) multiply_channels(begin, next);
                begin = next;
            }
        }
        if (!add)
            for (std::int64_t tile = 0; tile < tiles; ++tile)
                std::fill_n(sums + tile * sums_row, of.columns, 0.0f);
    }

    void read(std::int64_t tile, const Data& data, float* to) const {
        const std::int64_t in_image = tile % image_tiles_;
        const float* const image = data.from + tile / image_tiles_ * from_.size();
        const std::int64_t top = in_image / tile_columns_ * tile_output - padding_h_;
        const std::int64_t left = in_image % tile_columns_ * tile_output - padding_w_;
        std::array<const float*, fp32_winograd_input * fp32_winograd_input> pixels;
        for (std::int64_t channel = 0; channel < channels_; channel += from_.channels) {
            find_pixels(image, from_, top, left, fp32_winograd_input, data.zeros, pixels.data(),
                        turned_ ? ImagePhase() : window_.phase(channel / from_.channels));
            transform_fp32_winograd_pixels(pixels.data(), 0, from_.channels, to + channel, tiles_step());
        }
    }

    /// sums[products][columns] of columns from `column` on.
    void write(std::int64_t tile, const float* sums, std::int64_t column, std::int64_t columns,
               const Data& data) const {
        const std::int64_t in_image = tile % image_tiles_;
        float* const image = data.to + tile / image_tiles_ * to_.size();
        const std::int64_t top = in_image / tile_columns_ * tile_output;
        const std::int64_t left = in_image % tile_columns_ * tile_output;
        std::array<float*, tile_output * tile_output> pixels;
        for (const std::int64_t end = column + columns; column < end;) {
            const std::int64_t phase = column / to_.channels, channel = column % to_.channels;
            const std::int64_t count = std::min(end - column, to_.channels - channel);
            find_pixels<float>(image + channel, to_, top, left, tile_output, nullptr, pixels.data(),
                               turned_ ? window_.phase(phase) : ImagePhase());
            transform_fp32_winograd_sums(sums, sums_step(), count, data.bias ? data.bias + channel : nullptr,
                                         pixels.data());
            column += count;
            sums += count;
        }
    }

    const Fp32WinogradWindow window_;
    const bool turned_;
    const std::array<std::uint64_t, 4> used_;
    const ImageShape from_, to_;
    const std::int64_t padding_h_, padding_w_;
    const std::int64_t channels_, columns_;  ///< of all phases
    const std::int64_t threads_, tile_columns_, image_tiles_, tiles_;
    const Fp32WinogradShares shares_;
};

Fp32WinogradWindow window_of(const Conv2dShape& s) {
    return {s.kernel_h, s.stride_h};
}

/// Whether these windows are sums of 3×3, see fp32_winograd_window.hpp.
bool is_sum_of_windows(const Conv2dShape& s) {
    if (s.kernel_h != s.kernel_w || s.stride_h != s.stride_w || s.groups != 1) return false;
    if (s.stride_h == 1) return s.kernel_h == 3 && s.padding_h <= 2 && s.padding_w <= 2;
    return s.stride_h == 2 && (s.kernel_h == 3 || s.kernel_h == 4) && s.padding_h == 1 && s.padding_w == 1;
}

}  // namespace

bool takes_fp32_winograd(const Conv2dShape& s) {
    constexpr std::int64_t least = 16;
    if (!is_sum_of_windows(s) || s.in < least || s.out < least || s.in % lanes<float> != 0 ||
        s.out % lanes<float> != 0)
        return false;
    const Fp32WinogradWindow window = window_of(s);
    if (window.step > 1 && s.in % strip != 0) return false;  // a strip is one phase's
    // In multiplications of the library's direct products, which leave out the padding, measured on one core
    // of Zen 3: those of a tile, 38 for 36, and the transforms of a tile's channel with their ways through
    // the caches.
    constexpr std::int64_t tile_cost = 530;
    const std::int64_t tile_products = window.used() * 38 / 36;
    const std::int64_t tiles =
        divided_up(s.out_height(), tile_output) * divided_up(s.out_width(), tile_output);
    const std::int64_t direct = inner_places(s.height, s.out_height(), s.padding_h, window) *
                                inner_places(s.width, s.out_width(), s.padding_w, window);
    return tiles * (tile_products * s.in * s.out + tile_cost * (window.phases() * s.in + s.out)) <
           direct * s.in * s.out / 10 * 9;
}

void fp32_winograd_forward(const Conv2dShape& s, std::int64_t batch, const float* x, const float* weight,
                           const float* bias, float* y, Workspace& workspace) {
    const Fp32WinogradWindow window = window_of(s);
    const WinogradConvolution work(window, false, {s.height, s.width, s.in},
                                   {s.out_height(), s.out_width(), s.out}, s.padding_h, s.padding_w, batch);
    const auto transform = [&](const WinogradConvolution::Weights& of, float* to, std::int64_t step) {
        constexpr std::int64_t inputs_at_once = 2 * lanes<float>;
        float places[9 * inputs_at_once * strip];
        const std::int64_t row = window.places() * s.in;  // of the weights, an output's
        for (std::int64_t c = 0; c < of.channels;) {
            const std::int64_t phase = (of.channel + c) / s.in, i = (of.channel + c) % s.in;
            const std::int64_t inputs = std::min({inputs_at_once, of.channels - c, s.in - i}),
                               size = inputs * of.columns;
            for (std::int64_t place = 0; place < 9; ++place) {
                const std::int64_t found = window.find(phase, place);
                if (found == Fp32WinogradWindow::none)
                    std::fill_n(places + place * size, size, 0.0f);
                else
                    transpose_tile(weight + of.column * row + found * s.in + i, row, of.columns, inputs, 1.0f,
                                   places + place * size);
            }
            transform_fp32_winograd_windows(places, size, size, to + c * of.columns, step);
            c += inputs;
        }
    };
    work.execute(x, bias, y, workspace, transform);
}

void fp32_winograd_backward_data(const Conv2dShape& s, std::int64_t batch, const float* weight,
                                 const float* dy, float* dx, Workspace& workspace) {
    const Fp32WinogradWindow window = window_of(s);
    const WinogradConvolution work(window, true, {s.out_height(), s.out_width(), s.out},
                                   {s.height, s.width, s.in}, 2 - s.padding_h, 2 - s.padding_w, batch);
    const auto transform = [&](const WinogradConvolution::Weights& of, float* to, std::int64_t step) {
        const std::int64_t phase = of.column / s.in, i = of.column % s.in;
        float places[9 * strip];
        for (std::int64_t o = 0; o < of.channels; ++o) {
            const float* const windows = weight + (of.channel + o) * window.places() * s.in + i;
            // The last place first: turned around.
            if (window.step == 1) {
                transform_fp32_winograd_windows(windows + 8 * s.in, -s.in, of.columns, to + o * of.columns,
                                                step);
                continue;
            }
            for (std::int64_t place = 0; place < 9; ++place) {
                const std::int64_t found = window.find(phase, 8 - place);
                if (found == Fp32WinogradWindow::none)
                    std::fill_n(places + place * strip, of.columns, 0.0f);
                else
                    std::copy_n(windows + found * s.in, of.columns, places + place * strip);
            }
            transform_fp32_winograd_windows(places, strip, of.columns, to + o * of.columns, step);
        }
    };
    work.execute(dy, nullptr, dx, workspace, transform);
}

}  // namespace tutti
