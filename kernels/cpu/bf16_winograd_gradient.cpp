// Some tiles at a time are transformed and multiplied. The instruction adds two products at a time, so tiles
// become pairs:
//
//   left   [slab of O][product][pair of tiles][channels of the slab]
//   right  [slab of I][product][pair of tiles][channels of the slab]
//   sums   [slab of I][slab of O][product][outputs of the slab][inputs of the slab]

#include "bf16_winograd_gradient.hpp"

#include <algorithm>
#include <array>

#include "../common/counts.hpp"
#include "bf16_winograd.hpp"
#include "bf16_winograd_gradient_tile.hpp"
#include "bias_sums.hpp"
#include "image_pixels.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

constexpr std::int64_t in_slab = bf16_lanes * most_bf16_vectors;
/// Pairs of tiles whose products are summed in registers: their right factors of a slab stay in the
/// first-level cache.
constexpr std::int64_t run_pairs = 64;
/// A gap between products keeps them from lying a multiple of 4096 bytes apart, where they would push each
/// other out of the cache.
constexpr std::int64_t gap = 5 * bf16_lanes;

/// Whether outputs alone are too few for the threads.
bool too_few_outputs(std::int64_t out, std::int64_t threads) {
    return divided_up(out, bf16_lanes) < threads;
}

/// Outputs that are multiplied at a time: as many as keep the first-level cache, of which so many threads
/// have the fewest each; where products are dealt, too, slabs that are all full. No sum depends on it.
std::int64_t outputs_at_once(std::int64_t out, std::int64_t threads) {
    std::int64_t best = 0, least = 0;
    for (const std::int64_t slab : {48, 32, 16}) {
        if (too_few_outputs(out, threads) && out % slab == 0) return slab;
        const std::int64_t most = std::min(divided_up(divided_up(out, slab), threads) * slab, out);
        if (best == 0 || most < least) best = slab, least = most;
    }
    return best;
}

template <class Value>
class WinogradGradient {
  public:
    WinogradGradient(const Conv2dShape& shape, std::int64_t batch)
        : s_(shape),
          threads_(omp_get_max_threads()),
          deals_products_(too_few_outputs(shape.out, threads_)),
          out_slab_(outputs_at_once(shape.out, threads_)),
          tile_columns_(divided_up(shape.out_width(), 2)),
          image_tiles_(divided_up(shape.out_height(), 2) * tile_columns_),
          tiles_(batch * image_tiles_),
          at_once_(pairs_at_once()),
          blocks_(divided_up(divided_up(tiles_, 2), at_once_)) {}

    /// In elements of 4 bytes.
    std::int64_t size() const { return zeros_size() + left_size() + right_size() + all_sums_size(); }

    void execute(const Value* x, const Value* dy, float* dweight, float* memory) const {
        float* const zeros = memory;  // of either type
        auto* const left = reinterpret_cast<Bf16Pair*>(zeros + zeros_size());
        Bf16Pair* const right = left + left_size();
        auto* const sums = reinterpret_cast<float*>(right + right_size());
        std::fill_n(zeros, zeros_size(), 0.0f);
        for (std::int64_t block = 0; block < blocks_; ++block) {
            const std::int64_t first = block * at_once_;
            const std::int64_t pairs = std::min(at_once_, divided_up(tiles_, 2) - first);
            for_shares(pairs, std::min(pairs, threads_),
                       [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                           for (std::int64_t pair = begin; pair < end; ++pair)
                               pack(first + pair, pair, x, dy, zeros, left, right);
                       });
            const Block at{block, pairs, left, right, x, dy};
            if (deals_products_)
                multiply_products(at, sums, dweight);
            else
                multiply_outputs(at, sums, dweight);
        }
    }

  private:
    /// Pairs of tiles and their factors.
    struct Block {
        std::int64_t number, pairs;
        const Bf16Pair *left, *right;
        const Value* x;
        const Value* dy;
    };

    std::int64_t in_slabs() const { return divided_up(s_.in, in_slab); }
    std::int64_t out_slabs() const { return divided_up(s_.out, out_slab_); }

    /// As many as stay in the threads' second-level caches, but all where the sums, which each block reads
    /// and writes, are more than the factors of all.
    std::int64_t pairs_at_once() const {
        constexpr std::int64_t cache_pairs = (std::int64_t{1} << 20) / sizeof(Bf16Pair);
        const std::int64_t all_runs = divided_up(divided_up(tiles_, 2), run_pairs);
        if (all_runs * run_pairs * (s_.in + s_.out) <= s_.in * s_.out) return all_runs * run_pairs;
        const std::int64_t runs = threads_ * cache_pairs / (winograd_products * (s_.in + s_.out) * run_pairs);
        return std::clamp<std::int64_t>(runs, 1, all_runs) * run_pairs;
    }

    std::int64_t zeros_size() const { return std::max(s_.in, s_.out); }
    /// Between products of a slab of so many channels.
    std::int64_t product_step(std::int64_t channels) const { return at_once_ * channels + gap; }
    std::int64_t left_step() const { return winograd_products * product_step(out_slab_); }
    std::int64_t right_step() const { return winograd_products * product_step(in_slab); }
    std::int64_t left_size() const { return out_slabs() * left_step(); }
    std::int64_t right_size() const { return in_slabs() * right_step(); }
    std::int64_t sums_step() const { return out_slab_ * in_slab + gap; }
    std::int64_t sums_size() const { return winograd_products * sums_step(); }
    /// All sums where they are continued by the next block or dealt; else those that are in work.
    bool keeps_sums() const { return blocks_ > 1 || deals_products_; }
    std::int64_t all_sums_size() const {
        return (keeps_sums() ? in_slabs() * out_slabs() : std::min(out_slabs(), threads_)) * sums_size();
    }

    void pack(std::int64_t pair, std::int64_t at, const Value* x, const Value* dy, const float* zeros,
              Bf16Pair* left, Bf16Pair* right) const {
        std::array<std::array<const Value*, 16>, 2> pixels;
        std::array<std::array<const Value*, 4>, 2> gradients;
        for (std::size_t i = 0; i < 2; ++i) {
            const std::int64_t tile = 2 * pair + static_cast<std::int64_t>(i);
            find(tile, 4, s_.padding_h, s_.padding_w, x, s_.height, s_.width, s_.in,
                 reinterpret_cast<const Value*>(zeros), pixels[i].data());
            find(tile, 2, 0, 0, dy, s_.out_height(), s_.out_width(), s_.out,
                 reinterpret_cast<const Value*>(zeros), gradients[i].data());
        }
        for (std::int64_t in = 0; in < in_slabs(); ++in) {
            const std::int64_t count = std::min(in_slab, s_.in - in * in_slab);
            transform_winograd_pixel_pairs(pixels[0].data(), pixels[1].data(), in * in_slab, count,
                                           right + in * right_step() + at * count, product_step(in_slab));
        }
        for (std::int64_t out = 0; out < out_slabs(); ++out) {
            const std::int64_t count = std::min(out_slab_, s_.out - out * out_slab_);
            transform_winograd_gradient_pairs(gradients[0].data(), gradients[1].data(), out * out_slab_,
                                              count, left + out * left_step() + at * count,
                                              product_step(out_slab_));
        }
    }

    /// The pixels of a tile, `size` × `size` of them; zeros outside of the image and behind the last tile.
    void find(std::int64_t tile, std::int64_t size, std::int64_t padding_h, std::int64_t padding_w,
              const Value* images, std::int64_t height, std::int64_t width, std::int64_t channels,
              const Value* zeros, const Value** pixels) const {
        const ImageShape shape{tile < tiles_ ? height : 0, width, channels};
        find_pixels(images + tile / image_tiles_ * height * width * channels, shape,
                    tile % image_tiles_ / tile_columns_ * 2 - padding_h, tile % tile_columns_ * 2 - padding_w,
                    size, zeros, pixels);
    }

    /// Threads share the outputs, and what one has summed it finishes while that is in its cache.
    void multiply_outputs(const Block& block, float* sums, float* dweight) const {
        for (std::int64_t in = 0; in < in_slabs(); ++in)
            for_shares(out_slabs(), std::min(out_slabs(), threads_),
                       [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
                           for (std::int64_t out = begin; out < end; ++out) {
                               const std::int64_t item = in * out_slabs() + out;
                               float* const to = sums + (keeps_sums() ? item : share) * sums_size();
                               MemoryAhead ahead = share_ahead(block, in_slabs() * out_slabs(), item);
                               for (std::int64_t p = 0; p < winograd_products; ++p)
                                   multiply(in, out, p, block, to, ahead);
                               if (block.number + 1 == blocks_)
                                   finish(in, out * out_slab_, outputs_end(out), to, dweight);
                           }
                       });
    }

    /// Threads share the products, and in each of them the outputs.
    void multiply_products(const Block& block, float* sums, float* dweight) const {
        const std::int64_t slabs = in_slabs() * out_slabs(), items = winograd_products * slabs;
        for_shares(items, std::min(items, threads_), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
            for (std::int64_t item = begin; item < end; ++item) {
                const std::int64_t slab = item % slabs;
                MemoryAhead ahead = share_ahead(block, items, item);
                multiply(slab / out_slabs(), slab % out_slabs(), item / slabs, block,
                         sums + slab * sums_size(), ahead);
            }
        });
        if (block.number + 1 < blocks_) return;
        const std::int64_t rows = in_slabs() * s_.out;
        for_shares(rows, std::min(rows, threads_), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t in = row / s_.out, o = row % s_.out;
                const std::int64_t slab = in * out_slabs() + o / out_slab_;
                finish(in, o, o + 1, sums + slab * sums_size() + o % out_slab_ * in_slab, dweight);
            }
        });
    }

    void multiply(std::int64_t in, std::int64_t out, std::int64_t p, const Block& block, float* sums,
                  MemoryAhead& ahead) const {
        const std::int64_t rows = outputs_end(out) - out * out_slab_;
        const std::int64_t columns = std::min(in_slab, s_.in - in * in_slab);
        const Bf16Pair* const left = block.left + out * left_step() + p * product_step(out_slab_);
        const Bf16Pair* const right = block.right + in * right_step() + p * product_step(in_slab);
        for (std::int64_t pair = 0; pair < block.pairs; pair += run_pairs)
            multiply_bf16_pairs(
                rows, columns, {1, std::min(run_pairs, block.pairs - pair), 0, 0, rows, columns},
                left + pair * rows, right + pair * columns,
                {sums + p * sums_step(), in_slab, block.number > 0 || pair > 0, nullptr, &ahead});
    }

    std::int64_t outputs_end(std::int64_t out) const { return std::min((out + 1) * out_slab_, s_.out); }

    /// Outputs [begin, end) of a slab, whose sums begin at `sums`.
    void finish(std::int64_t in, std::int64_t begin, std::int64_t end, const float* sums,
                float* dweight) const {
        const std::int64_t columns = std::min(in_slab, s_.in - in * in_slab);
        for (std::int64_t o = begin; o < end; ++o, sums += in_slab)
            transform_winograd_gradient_sums(WindowTransform::winograd, sums, sums_step(), columns,
                                             dweight + o * 9 * s_.in + in * in_slab, s_.in);
    }

    /// While this block is multiplied, the next one's pixels come into the cache, a share with each item.
    MemoryAhead share_ahead(const Block& block, std::int64_t items, std::int64_t item) const {
        const auto share = [&](const auto* images, std::int64_t image_size) {
            constexpr std::int64_t in_line = 64 / sizeof(*images);
            const auto line = [&](std::int64_t of) {
                return std::min(2 * of * at_once_, tiles_) * (image_size / image_tiles_) / in_line;
            };
            const std::int64_t begin = line(block.number + 1), lines = line(block.number + 2) - begin;
            const std::int64_t from = share_begin(lines, items, item);
            return MemoryAhead::Range{images + (begin + from) * in_line,
                                      share_begin(lines, items, item + 1) - from};
        };
        return {{share(block.x, s_.height * s_.width * s_.in),
                 share(block.dy, s_.out_height() * s_.out_width() * s_.out)}};
    }

    const Conv2dShape& s_;
    const std::int64_t threads_;
    const bool deals_products_;
    const std::int64_t out_slab_, tile_columns_, image_tiles_, tiles_, at_once_, blocks_;
};

}  // namespace

bool takes_bf16_winograd_gradient(const Conv2dShape& s, std::int64_t batch) {
    if (!takes_bf16_winograd(s)) return false;
    // In multiplications that take as long, measured on one core of Zen 5: the transforms of a tile's channel
    // and those of a weight's sums, with their ways through the caches. Direct products lose a tenth there.
    constexpr std::int64_t tile_cost = 256, sums_cost = 800;
    const std::int64_t tiles = batch * divided_up(s.out_height(), 2) * divided_up(s.out_width(), 2);
    const std::int64_t direct = 9 * batch * s.out_height() * s.out_width() * s.in * s.out;
    return (winograd_products * tiles + sums_cost) * s.in * s.out + tile_cost * tiles * (s.in + s.out) <
           direct / 10 * 9;
}

template <class Value>
void bf16_winograd_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const Value* x,
                                   const Value* dy, float* dweight, float* dbias, Workspace& workspace) {
    const WinogradGradient<Value> work(shape, batch);
    const std::int64_t size = std::max(work.size(), dbias ? batch * shape.out : 0);
    auto* const memory = workspace.reserve_elements<float>(static_cast<std::size_t>(size));
    if (dbias) sum_bias(batch, shape.out_height() * shape.out_width(), shape.out, dy, dbias, memory);
    work.execute(x, dy, dweight, memory);
}

template void bf16_winograd_weight_gradient(const Conv2dShape&, std::int64_t, const float*, const float*,
                                            float*, float*, Workspace&);
template void bf16_winograd_weight_gradient(const Conv2dShape&, std::int64_t, const std::uint16_t*,
                                            const std::uint16_t*, float*, float*, Workspace&);

}  // namespace tutti
