// Some tiles at a time are transformed and multiplied:
//
//   left   [slab of O][product][tile][channels of the slab]
//   right  [strip of I][product][tile][channels of the strip]
//   sums   [chain][strip of I][slab of O][product][outputs of the slab][inputs of the strip]
//
// Where windows move by 2, I are the inputs of all phases (fp32_winograd_window.hpp), one behind the other.
//
// Many tiles are summed in a few chains, whose sums are added in the end. Threads take chains where these are
// dealt evenly: then each computes from what it has transformed itself, and cores without a common cache
// exchange images and sums only, which are a fraction of it.

#include "fp32_winograd_gradient.hpp"

#include <algorithm>
#include <array>

#include "../common/counts.hpp"
#include "bias_sums.hpp"
#include "fp32_winograd_shares.hpp"
#include "fp32_winograd_tile.hpp"
#include "fp32_winograd_window.hpp"
#include "image_pixels.hpp"
#include "parallel.hpp"
#include "tile_product.hpp"

namespace tutti {
namespace {

constexpr std::int64_t products = fp32_winograd_products, tile_input = fp32_winograd_input,
                       tile_output = fp32_winograd_output;
constexpr std::int64_t strip = fp32_winograd_strip;
/// Outputs that are multiplied with a run of tiles: the factors of both stay in the first-level cache.
constexpr std::int64_t run_tiles = fp32_winograd_run, most_outputs = 48;
/// A gap between products keeps them from lying a multiple of 4096 bytes apart, where they would push each
/// other out of the cache.
constexpr std::int64_t gap = 80;

class WinogradGradient {
  public:
    WinogradGradient(const Conv2dShape& shape, std::int64_t batch)
        : s_(shape),
          window_{shape.kernel_h, shape.stride_h},
          used_(window_.used_products(false)),
          inputs_(window_.phases() * shape.in),
          threads_(omp_get_max_threads()),
          slab_(padded<float>(divided_up(shape.out, divided_up(shape.out, most_outputs)))),
          tile_columns_(divided_up(shape.out_width(), tile_output)),
          image_tiles_(divided_up(shape.out_height(), tile_output) * tile_columns_),
          tiles_(batch * image_tiles_),
          shares_(tiles_, inputs_, shape.out, items(), threads_),
          at_once_(tiles_at_once()) {}

    std::int64_t size() const {
        return zeros_size() + (shares_.by_chains ? threads_ : 1) * factors_size() +
               (keeps_sums() ? shares_.chains * items() : std::min(items(), threads_)) * sums_size();
    }

    void execute(const float* x, const float* dy, float* dweight, float* memory) const {
        const Data data{memory, x, dy, dweight};
        std::fill_n(memory, zeros_size(), 0.0f);
        float* const factors = memory + zeros_size();
        float* const sums = factors + (shares_.by_chains ? threads_ : 1) * factors_size();
        if (shares_.by_chains)
            for_parts(shares_.chains, callers(shares_.chains), [&](int caller, std::int64_t chain) {
                sum_alone(chain, data, factors + caller * factors_size(), sums + chain * chain_size());
            });
        else
            for (std::int64_t chain = 0; chain < shares_.chains; ++chain)
                sum_together(chain, data, factors, sums + chain * chain_size());
        if (!finishes_last()) return;
        for_parts(items(), callers(items()), [&](int, std::int64_t item) {
            float* const sum = sums + item * sums_size();
            for (std::int64_t chain = 1; chain < shares_.chains; ++chain) {
                const float* const other = sum + chain * chain_size();
#pragma omp simd
                for (std::int64_t i = 0; i < sums_size(); ++i) sum[i] += other[i];
            }
            finish(item, sum, dweight);
        });
    }

  private:
    struct Data {
        const float *zeros, *x, *dy;
        float* dweight;
    };

    std::int64_t slabs() const {
        return divided_up(s_.out, slab_);
    }
    std::int64_t strips() const {
        return divided_up(inputs_, strip);
    }
    std::int64_t phase_of(std::int64_t strip_number) const {
        return strip_number * strip / s_.in;
    }
    int callers(std::int64_t parts) const {
        return static_cast<int>(std::clamp<std::int64_t>(parts, 1, threads_));
    }
    std::int64_t items() const {
        return slabs() * strips();
    }
    std::int64_t slab_outputs(std::int64_t number) const {
        return std::min(slab_, s_.out - number * slab_);
    }
    std::int64_t strip_inputs(std::int64_t number) const {
        return std::min(strip, inputs_ - number * strip);
    }

    /// Behind all products, and not as soon as an item has its sums.
    bool finishes_last() const {
        return shares_.chains > 1 || shares_.by_products;
    }
    /// Of all items, and not of those in work alone.
    bool keeps_sums() const {
        return tiles_ > at_once_ || finishes_last();
    }

    /// Few, so that their factors stay in the cache; but all where the sums, which each block reads and
    /// writes, are more than the factors of all. In whole runs: bits do not depend on how many.
    std::int64_t tiles_at_once() const {
        if (tiles_ * (inputs_ + s_.out) <= inputs_ * s_.out) return tiles_;
        return std::min(tiles_, (shares_.by_chains ? 1 : shares_.runs) * run_tiles);
    }

    std::int64_t zeros_size() const {
        return std::max(s_.in, s_.out);
    }
    std::int64_t left_product() const {
        return at_once_ * slab_ + gap;
    }
    std::int64_t right_product() const {
        return at_once_ * strip + gap;
    }
    std::int64_t left_step() const {
        return products * left_product();
    }
    std::int64_t right_step() const {
        return products * right_product();
    }
    std::int64_t sums_step() const {
        return slab_ * strip + gap;
    }
    std::int64_t sums_size() const {
        return products * sums_step();
    }
    std::int64_t factors_size() const {
        return slabs() * left_step() + strips() * right_step();
    }
    std::int64_t chain_size() const {
        return items() * sums_size();
    }
    /// The first tile of a chain: whole runs.
    std::int64_t chain_begin(std::int64_t chain) const {
        return std::min(share_begin(divided_up(tiles_, run_tiles), shares_.chains, chain) * run_tiles,
                        tiles_);
    }

    /// visit(first tile, count, whether there were some before), block by block.
    template <class Visit>
    void for_blocks(std::int64_t chain, const Visit& visit) const {
        const std::int64_t begin = chain_begin(chain), end = chain_begin(chain + 1);
        for (std::int64_t first = begin; first < end; first += at_once_)
            visit(first, std::min(at_once_, end - first), first > begin);
    }

    /// The sums of a chain by the calling thread.
    void sum_alone(std::int64_t chain, const Data& data, float* factors, float* sums) const {
        for_blocks(chain, [&](std::int64_t first, std::int64_t tiles, bool add) {
            for (std::int64_t tile = 0; tile < tiles; ++tile) pack(first + tile, tile, data, factors);
            for (std::int64_t item = 0; item < items(); ++item)
                for (std::int64_t p = 0; p < products; ++p)
                    multiply(item, p, tiles, add, factors, sums + item * sums_size());
            offer_progress();
        });
    }

    /// By all threads.
    void sum_together(std::int64_t chain, const Data& data, float* factors, float* sums) const {
        for_blocks(chain, [&](std::int64_t first, std::int64_t tiles, bool add) {
            for_ranges(
                tiles,
                [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t tile = begin; tile < end; ++tile)
                        pack(first + tile, tile, data, factors);
                },
                products * (inputs_ + s_.out));
            if (shares_.by_products) return multiply_by_products(tiles, add, factors, sums);
            const bool finished = !finishes_last() && first + tiles == tiles_;
            for_parts(items(), callers(items()), [&](int caller, std::int64_t item) {
                float* const to = sums + (keeps_sums() ? item : caller) * sums_size();
                for (std::int64_t p = 0; p < products; ++p) multiply(item, p, tiles, add, factors, to);
                if (finished) finish(item, to, data.dweight);
                offer_progress();
            });
        });
    }

    /// Transforms tile `tile` as number `at` of a block.
    void pack(std::int64_t tile, std::int64_t at, const Data& data, float* left) const {
        float* const right = left + slabs() * left_step();
        std::array<const float*, tile_input * tile_input> pixels;
        std::array<const float*, tile_output * tile_output> gradients;
        find(tile, tile_output, 0, 0, data.dy, {s_.out_height(), s_.out_width(), s_.out}, data.zeros,
             gradients.data());
        for (std::int64_t i = 0; i < strips(); ++i) {
            const std::int64_t count = strip_inputs(i), channel = i * strip % s_.in;
            if (channel == 0)
                find(tile, tile_input, s_.padding_h, s_.padding_w, data.x, {s_.height, s_.width, s_.in},
                     data.zeros, pixels.data(), window_.phase(phase_of(i)));
            transform_fp32_winograd_pixels(pixels.data(), channel, count,
                                           right + i * right_step() + at * count, right_product());
        }
        for (std::int64_t o = 0; o < slabs(); ++o) {
            const std::int64_t count = slab_outputs(o);
            transform_fp32_winograd_gradients(gradients.data(), o * slab_, count,
                                              left + o * left_step() + at * count, left_product());
        }
    }

    /// The pixels of a tile, `size` × `size` of them; zeros outside of the image.
    void find(std::int64_t tile, std::int64_t size, std::int64_t padding_h, std::int64_t padding_w,
              const float* images, const ImageShape& of, const float* zeros, const float** pixels,
              const ImagePhase& phase = {}) const {
        find_pixels(images + tile / image_tiles_ * of.size(), of,
                    tile % image_tiles_ / tile_columns_ * tile_output - padding_h,
                    tile % tile_columns_ * tile_output - padding_w, size, zeros, pixels, phase);
    }

    void multiply_by_products(std::int64_t tiles, bool add, const float* factors, float* sums) const {
        for_parts(items() * products, callers(items() * products), [&](int, std::int64_t number) {
            const std::int64_t item = number / products;
            multiply(item, number % products, tiles, add, factors, sums + item * sums_size());
            offer_progress();
        });
    }

    /// Product p of an item; 0 where no weight of the phase has it.
    void multiply(std::int64_t item, std::int64_t p, std::int64_t tiles, bool add, const float* left,
                  float* sums) const {
        const float* const right = left + slabs() * left_step();
        const std::int64_t slab = item % slabs(), inputs = item / slabs();
        const std::int64_t rows = slab_outputs(slab), columns = strip_inputs(inputs);
        if ((used_[static_cast<std::size_t>(phase_of(inputs))] >> p & 1) == 0) {
            if (!add) std::fill_n(sums + p * sums_step(), rows * strip, 0.0f);
            return;
        }
        for (std::int64_t tile = 0; tile < tiles; tile += run_tiles) {
            const float* const a = left + slab * left_step() + p * left_product() + tile * rows;
            const float* const b = right + inputs * right_step() + p * right_product() + tile * columns;
            multiply_tiles(rows, columns, std::min(run_tiles, tiles - tile), TileView<float>{a, 1, rows}, b,
                           columns, sums + p * sums_step(), strip, add || tile > 0);
        }
    }

    void finish(std::int64_t item, const float* sums, float* dweight) const {
        const std::int64_t slab = item % slabs(), inputs = item / slabs(), channel = inputs * strip % s_.in;
        const std::int64_t phase = phase_of(inputs), count = strip_inputs(inputs);
        for (std::int64_t o = 0; o < slab_outputs(slab); ++o) {
            float* const windows = dweight + (slab * slab_ + o) * window_.places() * s_.in + channel;
            if (window_.step == 1) {
                transform_fp32_winograd_gradient_sums(sums + o * strip, sums_step(), count, windows, s_.in);
                continue;
            }
            float places[9 * strip];
            transform_fp32_winograd_gradient_sums(sums + o * strip, sums_step(), count, places, strip);
            for (std::int64_t place = 0; place < 9; ++place)
                if (const std::int64_t found = window_.find(phase, place); found != Fp32WinogradWindow::none)
                    std::copy_n(places + place * strip, count, windows + found * s_.in);
        }
    }

    const Conv2dShape& s_;
    const Fp32WinogradWindow window_;
    const std::array<std::uint64_t, 4> used_;
    const std::int64_t inputs_;  ///< of all phases
    const std::int64_t threads_, slab_, tile_columns_, image_tiles_, tiles_;
    const Fp32WinogradGradientShares shares_;
    const std::int64_t at_once_;
};

}  // namespace

void fp32_winograd_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const float* x,
                                   const float* dy, float* dweight, float* dbias, Workspace& workspace) {
    const WinogradGradient work(shape, batch);
    const std::int64_t size = std::max(work.size(), dbias ? batch * shape.out : 0);
    auto* const memory = workspace.reserve_elements<float>(static_cast<std::size_t>(size));
    if (dbias) sum_bias(batch, shape.out_height() * shape.out_width(), shape.out, dy, dbias, memory);
    work.execute(x, dy, dweight, memory);
}

}  // namespace tutti
