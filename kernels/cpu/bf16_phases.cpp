// Both are one procedure: some images at a time become planes of entries, which are multiplied with all
// weights, slab of columns after slab, while they are in the cache.
//
//   weights  as bf16_winograd_weights.hpp has them
//   entries  [plane][image][row of the plane][pairs of the summed channels]
//   sums     [plane][image][row of the plane][columns of a slab]

#include "bf16_phases.hpp"

#include <algorithm>
#include <array>

#include "bf16_phase_planes.hpp"
#include "bf16_winograd_weights.hpp"
#include "image_pixels.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

/// What a convolution of tiles of outputs reads and writes.
template <class Value>
struct Outputs {
    using Number = Value;
    const ImageShape x, y;
    const std::int64_t padding_h, padding_w;
    const Value* const from;
    Value* const to;
    const float* const bias;

    const ImageShape& read() const { return x; }
    const ImageShape& written() const { return y; }
    /// Tiles beyond the last ones, which write, too.
    static constexpr std::int64_t more_tiles = 0;

    void transform(std::int64_t image, std::int64_t i, std::int64_t j, const Value* zeros,
                   Bf16Pair* const* entries) const {
        std::array<const Value*, 25> pixels;
        find_pixels(from + image * x.size(), x, 4 * i - padding_h, 4 * j - padding_w, 5, zeros,
                    pixels.data());
        transform_phase_pixels(pixels.data(), x.channels, entries);
    }
    /// A row of `tiles` tiles, of `columns` channels from `column` on. The sums are those of image `number`
    /// in memory.
    void write_row(std::int64_t image, std::int64_t i, std::int64_t tiles, std::int64_t column,
                   std::int64_t columns, const float* zeros, const PhaseMemory& memory, std::int64_t number,
                   const float* sums) const {
        for (std::int64_t j = 0; j < tiles; ++j) {
            auto of_tile = memory.find(sums, number, i, j);
            std::ranges::replace(of_tile, nullptr, zeros);
            std::array<Value*, 4> pixels;
            find_pixels(to + image * y.size() + column, y, 2 * i, 2 * j, 2, static_cast<Value*>(nullptr),
                        pixels.data());
            transform_phase_sums(of_tile.data(), columns, bias ? bias + column : nullptr, pixels.data());
        }
    }
};

/// The same of the inputs' gradients.
template <class Value>
struct InputGradients {
    using Number = Value;
    const ImageShape x, y;
    const std::int64_t padding_h, padding_w;
    const Value* const from;
    Value* const to;

    const ImageShape& read() const { return y; }
    const ImageShape& written() const { return x; }
    /// Behind the last tile lies the last window's last pixel, and what no window has.
    static constexpr std::int64_t more_tiles = 1;

    void transform(std::int64_t image, std::int64_t i, std::int64_t j, const Value* zeros,
                   Bf16Pair* const* entries) const {
        std::array<const Value*, 4> gradients;
        find_pixels(from + image * y.size(), y, 2 * i, 2 * j, 2, zeros, gradients.data());
        transform_phase_gradients(gradients.data(), y.channels, entries);
    }
    void write_row(std::int64_t image, std::int64_t i, std::int64_t tiles, std::int64_t column,
                   std::int64_t columns, const float* zeros, const PhaseMemory& memory, std::int64_t number,
                   const float* sums) const {
        // Of the tile before in each axis one entry, the third, takes part.
        constexpr std::size_t last = 2, n = static_cast<std::size_t>(phase_entries);
        auto before = memory.find(sums, number, i, -1), above_before = memory.find(sums, number, i - 1, -1);
        for (std::int64_t j = 0; j < tiles; ++j) {
            const auto here = memory.find(sums, number, i, j), above = memory.find(sums, number, i - 1, j);
            std::array<const float*, 36> all;
            all[0] = above_before[last * n + last];
            for (std::size_t e = 0; e < n; ++e) {
                all[1 + e] = above[last * n + e];
                all[6 * (1 + e)] = before[e * n + last];
                for (std::size_t k = 0; k < n; ++k) all[6 * (1 + e) + 1 + k] = here[e * n + k];
            }
            std::ranges::replace(all, nullptr, zeros);
            std::array<Value*, 16> pixels;
            find_pixels(to + image * x.size() + column, x, 4 * i - padding_h, 4 * j - padding_w, 4,
                        static_cast<Value*>(nullptr), pixels.data());
            transform_phase_gradient_sums(all.data(), columns, pixels.data());
            before = here;
            above_before = above;
        }
    }
};

template <class Tiles>
class PhaseConvolution {
  public:
    PhaseConvolution(const PhasePlanes& planes, const Tiles& tiles, std::int64_t batch)
        : planes_(planes),
          tiles_(tiles),
          batch_(batch),
          at_once_(images_at_once()),
          weights_(tiles.read().channels, tiles.written().channels),
          entries_(planes, at_once_, tiles.read().channels / 2),
          sums_(planes, at_once_, std::min(slab, tiles.written().channels)) {}

    const WinogradWeights& weights() const { return weights_; }
    /// What a thread needs besides, in elements of 4 bytes, the zeros first.
    std::int64_t scratch_size() const { return zeros_size() + entries_.size() + sums_.size(); }

    void execute(const Bf16Pair* weights, float* scratch) const {
        const std::int64_t blocks = (batch_ + at_once_ - 1) / at_once_;
        const int threads = omp_get_max_threads();
        const std::int64_t block_cost =
            at_once_ * planes_.rows() * tiles_.read().channels * tiles_.written().channels;
        const std::int64_t parts = uneven_parts_of(blocks, block_cost, threads, threads);
        for (std::int64_t part = 0; part < parts; ++part) {
            const std::int64_t first = share_begin(blocks, parts, part);
            const std::int64_t count = share_begin(blocks, parts, part + 1) - first;
            for_shares(count, std::min<std::int64_t>(count, threads),
                       [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
                           for (std::int64_t block = first + begin; block < first + end; ++block)
                               compute(block * at_once_, std::min((block + 1) * at_once_, batch_), weights,
                                       scratch + share * scratch_size());
                       });
        }
    }

  private:
    static constexpr std::int64_t slab = WinogradWeights::slab;

    std::int64_t zeros_size() const { return std::max(tiles_.read().channels, slab); }
    /// As many as stay in a core's second-level cache beside a slab of weights, and enough for all threads.
    std::int64_t images_at_once() const {
        constexpr std::int64_t cached = (std::int64_t{1} << 19) / sizeof(float);
        const std::int64_t image =
            planes_.rows() * (tiles_.read().channels / 2 + std::min(slab, tiles_.written().channels));
        return std::clamp<std::int64_t>(cached / image, 1, std::max<std::int64_t>(batch_, 1));
    }

    void compute(std::int64_t begin, std::int64_t end, const Bf16Pair* weights, float* scratch) const {
        const float* const zeros = scratch;
        float* const sums = scratch + zeros_size();
        auto* const entries = reinterpret_cast<Bf16Pair*>(sums + sums_.size());
        std::fill_n(scratch, zeros_size(), 0.0f);
        for (std::int64_t image = begin; image < end; ++image)
            for (std::int64_t i = 0; i < planes_.tile_rows(); ++i)
                for (std::int64_t j = 0; j < planes_.tile_columns(); ++j)
                    tiles_.transform(image, i, j, reinterpret_cast<const typename Tiles::Number*>(zeros),
                                     entries_.find(entries, image - begin, i, j).data());
        const std::int64_t pairs = tiles_.read().channels / 2;
        for (std::int64_t column = 0; column < tiles_.written().channels; column += slab) {
            const WinogradWeights::Place right = weights_.place(column);
            const PhaseMemory sums_here(planes_, at_once_, right.pair_step);
            for (std::int64_t p = 0; p < winograd_products; ++p)
                multiply_bf16_pairs((end - begin) * planes_.rows(p), right.pair_step,
                                    {1, pairs, 0, 0, 1, right.pair_step, pairs}, entries + entries_.begin(p),
                                    weights + right.at + p * right.product_step,
                                    {sums + sums_here.begin(p), right.pair_step});
            for (std::int64_t image = begin; image < end; ++image)
                for (std::int64_t i = 0; i < planes_.tile_rows() + Tiles::more_tiles; ++i)
                    tiles_.write_row(image, i, planes_.tile_columns() + Tiles::more_tiles, column,
                                     right.pair_step, zeros, sums_here, image - begin, sums);
        }
    }

    const PhasePlanes planes_;
    const Tiles tiles_;
    const std::int64_t batch_, at_once_;
    const WinogradWeights weights_;
    const PhaseMemory entries_, sums_;
};

/// transform(to): writes the weights' pairs.
template <class Tiles, class Transform>
void convolve(const Conv2dShape& shape, std::int64_t batch, const Tiles& tiles, Workspace& workspace,
              const Transform& transform) {
    const PhaseConvolution<Tiles> work(PhasePlanes(shape.out_height(), shape.out_width()), tiles, batch);
    with_winograd_weights(work.weights(), work.scratch_size(), workspace, transform,
                          [&](const Bf16Pair* weights, float* scratch) { work.execute(weights, scratch); });
}

}  // namespace

bool takes_bf16_phases(const Conv2dShape& s) {
    return s.stride_h == 2 && s.stride_w == 2 && suits_winograd_weights(s);
}

template <class Value>
void bf16_phases_forward(const Conv2dShape& s, std::int64_t batch, const Value* x, const float* weight,
                         const float* bias, Value* y, Workspace& workspace) {
    const Outputs<Value> tiles{{s.height, s.width, s.in},
                               {s.out_height(), s.out_width(), s.out},
                               s.padding_h,
                               s.padding_w,
                               x,
                               y,
                               bias};
    convolve(s, batch, tiles, workspace,
             [&](Bf16Pair* to) { transform_weights_for_outputs(WindowTransform::phases, s, weight, to); });
}

template <class Value>
void bf16_phases_backward_data(const Conv2dShape& s, std::int64_t batch, const float* weight, const Value* dy,
                               Value* dx, Workspace& workspace) {
    const InputGradients<Value> tiles{
        {s.height, s.width, s.in}, {s.out_height(), s.out_width(), s.out}, s.padding_h, s.padding_w, dy, dx};
    convolve(s, batch, tiles, workspace,
             [&](Bf16Pair* to) { transform_weights_for_inputs(WindowTransform::phases, s, weight, to); });
}

template void bf16_phases_forward(const Conv2dShape&, std::int64_t, const float*, const float*, const float*,
                                  float*, Workspace&);
template void bf16_phases_backward_data(const Conv2dShape&, std::int64_t, const float*, const float*, float*,
                                        Workspace&);
template void bf16_phases_forward(const Conv2dShape&, std::int64_t, const std::uint16_t*, const float*,
                                  const float*, std::uint16_t*, Workspace&);
template void bf16_phases_backward_data(const Conv2dShape&, std::int64_t, const float*, const std::uint16_t*,
                                        std::uint16_t*, Workspace&);

}  // namespace tutti
