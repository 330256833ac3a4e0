// Some images at a time become planes of entries (bf16_phase_planes.hpp), which are multiplied plane by
// plane. The instruction adds two products at a time, so an entry is a pair: of two images.
//
//   left   [slab of O][plane][pair of images][row of the plane][channels of the slab]
//   right  [slab of I][plane][pair of images][row of the plane][channels of the slab]
//   sums   [slab of I][slab of O][product][outputs of the slab][inputs of the slab]

#include "bf16_phase_gradient.hpp"

#include <algorithm>
#include <array>

#include "../common/counts.hpp"
#include "bf16_phase_planes.hpp"
#include "bf16_winograd_gradient_tile.hpp"
#include "bias_sums.hpp"
#include "image_pixels.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

constexpr std::int64_t in_slab = bf16_lanes * most_bf16_vectors, out_slab = 48;
/// Pairs whose products are summed in registers: their right factors of a slab stay in the first-level cache.
constexpr std::int64_t run_pairs = 64;
/// As between planes.
constexpr std::int64_t gap = 5 * bf16_lanes;

template <class Value>
class PhaseGradient {
  public:
    PhaseGradient(const Conv2dShape& shape, std::int64_t batch)
        : s_(shape),
          batch_(batch),
          planes_(shape.out_height(), shape.out_width()),
          blocks_(divided_up(divided_up(batch, 2), pairs_at_once())),
          at_once_(divided_up(divided_up(batch, 2), blocks_)),
          left_(planes_, at_once_, out_slab),
          right_(planes_, at_once_, in_slab) {}

    /// In elements of 4 bytes.
    std::int64_t size() const {
        return zeros_size() + out_slabs() * left_.size() + in_slabs() * right_.size() + slabs() * sums_size;
    }

    void execute(const Value* x, const Value* dy, float* dweight, float* memory) const {
        float* const zeros = memory;  // of either type
        auto* const left = reinterpret_cast<Bf16Pair*>(zeros + zeros_size());
        Bf16Pair* const right = left + out_slabs() * left_.size();
        auto* const sums = reinterpret_cast<float*>(right + in_slabs() * right_.size());
        std::fill_n(zeros, zeros_size(), 0.0f);
        for (std::int64_t block = 0; block < blocks_; ++block) {
            const std::int64_t first = block * at_once_;
            const std::int64_t pairs = std::min(at_once_, divided_up(batch_, 2) - first);
            // Rows of tiles of a pair of images.
            const std::int64_t rows = pairs * planes_.tile_rows();
            const auto pack_row = [&](int, std::int64_t row) {
                pack(first + row / planes_.tile_rows(), row / planes_.tile_rows(), row % planes_.tile_rows(),
                     x, dy, zeros, left, right);
            };
            const auto multiply_item = [&](int, std::int64_t item) {
                multiply(item / slabs(), item % slabs(), pairs, block > 0, left, right, sums);
            };
            const int callers = omp_get_max_threads();
            for_parts(rows, callers, pack_row);
            for_parts(winograd_products * slabs(), callers, multiply_item);
        }
        for_ranges(
            s_.out,
            [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t o = begin; o < end; ++o) finish(o, sums, dweight);
            },
            winograd_products * s_.in);
    }

  private:
    std::int64_t in_slabs() const { return divided_up(s_.in, in_slab); }
    std::int64_t out_slabs() const { return divided_up(s_.out, out_slab); }
    std::int64_t slabs() const { return in_slabs() * out_slabs(); }
    std::int64_t zeros_size() const { return std::max(s_.in, s_.out); }
    static constexpr std::int64_t sums_step = out_slab * in_slab + gap,
                                  sums_size = winograd_products * sums_step;

    /// Pairs of images: as many as stay in a core's second-level cache, or whose factors are as many as the
    /// sums, which each block reads and writes.
    std::int64_t pairs_at_once() const {
        constexpr std::int64_t cached = (std::int64_t{1} << 20) / sizeof(Bf16Pair);
        const std::int64_t of_pair = planes_.rows() * (s_.in + s_.out);
        return std::max<std::int64_t>(std::max(cached, winograd_products * s_.in * s_.out) / of_pair, 1);
    }

    /// A row of tiles.
    void pack(std::int64_t pair, std::int64_t at, std::int64_t i, const Value* x, const Value* dy,
              const float* zeros, Bf16Pair* left, Bf16Pair* right) const {
        std::array<std::array<const Value*, 25>, 2> pixels;
        std::array<std::array<const Value*, 4>, 2> gradients;
        for (std::int64_t j = 0; j < planes_.tile_columns(); ++j) {
            for (std::size_t n = 0; n < 2; ++n) {
                const std::int64_t image = 2 * pair + static_cast<std::int64_t>(n);
                // Behind the last image there are no rows.
                const ImageShape of_x{image < batch_ ? s_.height : 0, s_.width, s_.in},
                    of_y{image < batch_ ? s_.out_height() : 0, s_.out_width(), s_.out};
                find_pixels(x + image * s_.height * s_.width * s_.in, of_x, 4 * i - s_.padding_h,
                            4 * j - s_.padding_w, 5, reinterpret_cast<const Value*>(zeros), pixels[n].data());
                find_pixels(dy + image * s_.out_height() * s_.out_width() * s_.out, of_y, 2 * i, 2 * j, 2,
                            reinterpret_cast<const Value*>(zeros), gradients[n].data());
            }
            for (std::int64_t in = 0; in < in_slabs(); ++in)
                transform_phase_pixel_pairs(pixels[0].data(), pixels[1].data(), in * in_slab,
                                            std::min(in_slab, s_.in - in * in_slab),
                                            right_.find(right + in * right_.size(), at, i, j).data());
            for (std::int64_t out = 0; out < out_slabs(); ++out)
                transform_phase_gradient_pairs(gradients[0].data(), gradients[1].data(), out * out_slab,
                                               std::min(out_slab, s_.out - out * out_slab),
                                               left_.find(left + out * left_.size(), at, i, j).data());
        }
    }

    void multiply(std::int64_t p, std::int64_t slab, std::int64_t pairs, bool add, const Bf16Pair* left,
                  const Bf16Pair* right, float* sums) const {
        const std::int64_t in = slab / out_slabs(), out = slab % out_slabs();
        const std::int64_t rows = std::min(out_slab, s_.out - out * out_slab);
        const std::int64_t columns = std::min(in_slab, s_.in - in * in_slab);
        const std::int64_t all = pairs * planes_.rows(p);
        const Bf16Pair* const a = left + out * left_.size() + left_.begin(p);
        const Bf16Pair* const b = right + in * right_.size() + right_.begin(p);
        for (std::int64_t pair = 0; pair < all; pair += run_pairs)
            multiply_bf16_pairs(rows, columns, {1, std::min(run_pairs, all - pair), 0, 0, out_slab, in_slab},
                                a + pair * out_slab, b + pair * in_slab,
                                {sums + slab * sums_size + p * sums_step, in_slab, add || pair > 0});
        // Where there are no rows: outputs of one pixel have no third number.
        if (all == 0 && !add) std::fill_n(sums + slab * sums_size + p * sums_step, out_slab * in_slab, 0.0f);
    }

    void finish(std::int64_t o, const float* sums, float* dweight) const {
        for (std::int64_t in = 0; in < in_slabs(); ++in) {
            const std::int64_t slab = in * out_slabs() + o / out_slab;
            transform_winograd_gradient_sums(
                WindowTransform::phases, sums + slab * sums_size + o % out_slab * in_slab, sums_step,
                std::min(in_slab, s_.in - in * in_slab), dweight + o * 9 * s_.in + in * in_slab, s_.in);
        }
    }

    const Conv2dShape& s_;
    const std::int64_t batch_;
    const PhasePlanes planes_;
    const std::int64_t blocks_, at_once_;
    const PhaseMemory left_, right_;
};

}  // namespace

template <class Value>
void bf16_phases_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const Value* x,
                                 const Value* dy, float* dweight, float* dbias, Workspace& workspace) {
    const PhaseGradient<Value> work(shape, batch);
    const std::int64_t size = std::max(work.size(), dbias ? batch * shape.out : 0);
    auto* const memory = workspace.reserve_elements<float>(static_cast<std::size_t>(size));
    if (dbias) sum_bias(batch, shape.out_height() * shape.out_width(), shape.out, dy, dbias, memory);
    work.execute(x, dy, dweight, memory);
}

template void bf16_phases_weight_gradient(const Conv2dShape&, std::int64_t, const float*, const float*,
                                          float*, float*, Workspace&);
template void bf16_phases_weight_gradient(const Conv2dShape&, std::int64_t, const std::uint16_t*,
                                          const std::uint16_t*, float*, float*, Workspace&);

}  // namespace tutti
