// Some images at a time are rounded, with their padding, and multiplied with all weights while they are in
// the cache:
//
//   weights  [slab of columns][tap][pairs of the summed channels][columns of the slab]
//   images   [image][plane][pixel of the plane][summed channels], in bf16
//   sums     [pixels of some rows, with what lies between the rows][columns of the slab]

#include "amx_convolution.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "amx_products.hpp"
#include "bf16_pairs.hpp"
#include "convolution_taps.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

constexpr std::int64_t slab = bf16_lanes * most_bf16_vectors;

class TapConvolution {
  public:
    TapConvolution(TapAxis rows, TapAxis columns, std::int64_t to_height, std::int64_t to_width,
                   std::int64_t from_channels, std::int64_t to_channels)
        : rows_(std::move(rows)),
          columns_(std::move(columns)),
          to_height_(to_height),
          to_width_(to_width),
          from_channels_(from_channels),
          to_channels_(to_channels) {
        for (const TapAxis::Grid& down : rows_.grids)
            for (const TapAxis::Grid& across : columns_.grids) {
                Grid grid{down.phase, across.phase, down.size, across.size, taps(), {}};
                for (const TapAxis::Tap& y : down.taps)
                    for (const TapAxis::Tap& x : across.taps) {
                        const std::int64_t plane = y.plane * columns_.planes + x.plane;
                        const std::int64_t offset = y.offset * columns_.plane + x.offset;
                        grid.starts.push_back((plane * plane_pixels() + offset) * pairs());
                        windows_.push_back({y.window, x.window});
                        used_planes_.push_back(plane);
                    }
                grids_.push_back(std::move(grid));
            }
        std::sort(used_planes_.begin(), used_planes_.end());
        used_planes_.erase(std::unique(used_planes_.begin(), used_planes_.end()), used_planes_.end());
    }

    std::int64_t pairs() const { return from_channels_ / 2; }
    std::int64_t taps() const { return static_cast<std::int64_t>(windows_.size()); }
    std::int64_t weights_size() const { return taps() * pairs() * to_channels_; }
    /// Calls place(row of the window, column, where its weights of pair 0 and column `column` lie).
    template <class Place>
    void for_taps(std::int64_t column, const Place& place) const {
        const std::int64_t first = column / slab * slab, width = slab_width(column);
        for (std::int64_t tap = 0; tap < taps(); ++tap) {
            const auto [y, x] = windows_[static_cast<std::size_t>(tap)];
            place(y, x, taps() * pairs() * first + tap * pairs() * width + column - first);
        }
    }
    std::int64_t slab_width(std::int64_t column) const {
        return std::min(slab, to_channels_ - column / slab * slab);
    }

    /// What a thread needs besides, in elements of 4 bytes.
    std::int64_t scratch_size(std::int64_t at_once) const { return images_size(at_once) + most_sums(); }
    /// So many images at a time that they stay in a core's cache.
    std::int64_t images_at_once(std::int64_t batch) const {
        constexpr std::int64_t cache = (std::int64_t{512} << 10) / sizeof(Bf16Pair);
        const std::int64_t threads = omp_get_max_threads();
        return std::clamp<std::int64_t>(cache / image_size(), 1, (batch + threads - 1) / threads);
    }

    void execute(std::int64_t batch, std::int64_t at_once, const float* from, const Bf16Pair* weights,
                 const float* bias, float* to, Bf16Pair* scratch) const {
        const std::int64_t blocks = (batch + at_once - 1) / at_once;
        const int threads = omp_get_max_threads();
        // The unit multiplies ten times as fast as what parts are counted for.
        constexpr std::int64_t faster = 8;
        const std::int64_t cost =
            at_once * to_height_ * to_width_ * to_channels_ * from_channels_ * taps() / faster;
        const std::int64_t parts = uneven_parts_of(blocks, cost, threads, threads);
        for (std::int64_t part = 0; part < parts; ++part) {
            const std::int64_t first = share_begin(blocks, parts, part);
            const std::int64_t count = share_begin(blocks, parts, part + 1) - first;
            for_shares(count, std::min<std::int64_t>(count, threads),
                       [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
                           Bf16Pair* const own = scratch + share * scratch_size(at_once);
                           std::fill_n(own, images_size(at_once), Bf16Pair{0});
                           for (std::int64_t block = first + begin; block < first + end; ++block)
                               compute(block * at_once, std::min((block + 1) * at_once, batch), from, weights,
                                       bias, to, own, own + images_size(at_once));
                       });
        }
    }

  private:
    struct Grid {
        std::int64_t top, left, height, width;  // its first output, and how many there are
        std::int64_t first_tap;
        std::vector<std::int64_t> starts;  // of the taps of the first output, in pairs
    };
    struct Window {
        std::int64_t y, x;
    };

    std::int64_t plane_pixels() const { return rows_.plane * columns_.plane; }
    /// In pairs.
    std::int64_t image_size() const { return rows_.planes * columns_.planes * plane_pixels() * pairs(); }
    /// Whole vectors.
    std::int64_t images_size(std::int64_t images) const {
        return (images * image_size() + bf16_lanes - 1) / bf16_lanes * bf16_lanes;
    }
    /// Rows of a grid that are summed at a time: enough for the unit, and their sums stay in the cache.
    std::int64_t rows_at_once() const {
        constexpr std::int64_t pixels = 192;
        return std::max<std::int64_t>(pixels / columns_.plane, 1);
    }
    std::int64_t most_sums() const { return rows_at_once() * columns_.plane * slab; }

    void compute(std::int64_t begin, std::int64_t end, const float* from, const Bf16Pair* weights,
                 const float* bias, float* to, Bf16Pair* images, Bf16Pair* scratch) const {
        for (std::int64_t image = begin; image < end; ++image)
            round(from + image * rows_.from * columns_.from * from_channels_,
                  images + (image - begin) * image_size());
        auto* const sums = reinterpret_cast<float*>(scratch);
        for (std::int64_t column = 0; column < to_channels_; column += slab)
            for (std::int64_t image = begin; image < end; ++image)
                for (const Grid& grid : grids_)
                    multiply(grid, column, images + (image - begin) * image_size(), weights,
                             bias ? bias + column : nullptr,
                             to + image * to_height_ * to_width_ * to_channels_, sums);
    }

    void round(const float* from, Bf16Pair* image) const {
        auto* const rounded = reinterpret_cast<std::uint16_t*>(image);
        for (const std::int64_t plane : used_planes_) {
            const std::int64_t down = plane / columns_.planes, across = plane % columns_.planes;
            const std::int64_t x = columns_.first_in(across), count = columns_.count_in(across);
            if (count == 0) continue;
            for (std::int64_t y = rows_.first_in(down); y < rows_.from; y += rows_.planes) {
                const std::int64_t pixel =
                    plane * plane_pixels() + rows_.place_of(y) * columns_.plane + columns_.place_of(x);
                round_to_bf16(from + (y * columns_.from + x) * from_channels_,
                              columns_.planes * from_channels_, count, from_channels_,
                              rounded + pixel * from_channels_);
            }
        }
    }

    void multiply(const Grid& grid, std::int64_t column, const Bf16Pair* image, const Bf16Pair* weights,
                  const float* bias, float* to, float* sums) const {
        const std::int64_t width = slab_width(column), pitch = columns_.plane;
        const Bf16Pair* const right = weights + taps() * pairs() * column + grid.first_tap * pairs() * width;
        const PairRuns runs{
            static_cast<std::int64_t>(grid.starts.size()), pairs(), 0, pairs() * width, 1, width, pairs()};
        for (std::int64_t row = 0; row < grid.height; row += rows_at_once()) {
            const std::int64_t rows = std::min(rows_at_once(), grid.height - row);
            multiply_amx_runs((rows - 1) * pitch + grid.width, width, runs, grid.starts.data(),
                              image + row * pitch * pairs(), right, {sums, width, false, bias, nullptr});
            for (std::int64_t y = 0; y < rows; ++y) {
                const std::int64_t to_row = grid.top + (row + y) * rows_.step;
                float* at = to + (to_row * to_width_ + grid.left) * to_channels_ + column;
                const float* sum = sums + y * pitch * width;
                for (std::int64_t x = 0; x < grid.width;
                     ++x, sum += width, at += columns_.step * to_channels_)
                    std::memcpy(at, sum, static_cast<std::size_t>(width) * sizeof(float));
            }
        }
    }

    const TapAxis rows_, columns_;
    const std::int64_t to_height_, to_width_, from_channels_, to_channels_;
    std::vector<Grid> grids_;
    std::vector<Window> windows_;  // by tap
    std::vector<std::int64_t> used_planes_;
};

/// Brings the weights into pairs and convolves. pair(to): writes the pairs.
template <class Pair>
void convolve(const TapConvolution& work, std::int64_t batch, const float* from, const float* bias, float* to,
              Workspace& workspace, const Pair& pair) {
    const std::int64_t at_once = work.images_at_once(batch);
    const std::int64_t size = work.weights_size() + omp_get_max_threads() * work.scratch_size(at_once);
    auto* const weights = workspace.reserve_elements<Bf16Pair>(static_cast<std::size_t>(size));
    pair(weights);
    work.execute(batch, at_once, from, weights, bias, to, weights + work.weights_size());
}

}  // namespace

bool takes_amx_convolution(const Conv2dShape& shape) {
    return has_amx_products() && shape.groups == 1 && shape.in % bf16_lanes == 0 &&
           shape.out % bf16_lanes == 0;
}

struct AmxConvolution::Ways {
    TapConvolution forward, backward;
};

AmxConvolution::AmxConvolution(const Conv2dShape& s)
    : shape_(s),
      ways_(std::make_unique<Ways>(Ways{{TapAxis::forward(s.height, s.kernel_h, s.stride_h, s.padding_h),
                                         TapAxis::forward(s.width, s.kernel_w, s.stride_w, s.padding_w),
                                         s.out_height(), s.out_width(), s.in, s.out},
                                        {TapAxis::backward(s.height, s.kernel_h, s.stride_h, s.padding_h),
                                         TapAxis::backward(s.width, s.kernel_w, s.stride_w, s.padding_w),
                                         s.height, s.width, s.out, s.in}})) {}
AmxConvolution::~AmxConvolution() = default;

void AmxConvolution::forward(std::int64_t batch, const float* x, const float* weight, const float* bias,
                             float* y, Workspace& workspace) const {
    const TapConvolution& work = ways_->forward;
    const std::int64_t in = shape_.in, window = shape_.kernel_h * shape_.kernel_w * in;
    convolve(work, batch, x, bias, y, workspace, [&](Bf16Pair* to) {
        const auto of_outputs = [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t o = begin * bf16_lanes; o < end * bf16_lanes; o += bf16_lanes)
                work.for_taps(o, [&](std::int64_t kh, std::int64_t kw, std::int64_t at) {
                    transpose_bf16_pairs(weight + o * window + (kh * shape_.kernel_w + kw) * in, window,
                                         bf16_lanes, in, 1.0f, to + at, work.slab_width(o));
                });
        };
        for_ranges(shape_.out / bf16_lanes, of_outputs, window * bf16_lanes);
    });
}

void AmxConvolution::backward_data(std::int64_t batch, const float* weight, const float* dy, float* dx,
                                   Workspace& workspace) const {
    const TapConvolution& work = ways_->backward;
    const std::int64_t in = shape_.in, window = shape_.kernel_h * shape_.kernel_w * in;
    convolve(work, batch, dy, nullptr, dx, workspace, [&](Bf16Pair* to) {
        const auto of_pairs = [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = 0; i < in; i += slab)
                work.for_taps(i, [&](std::int64_t kh, std::int64_t kw, std::int64_t at) {
                    const std::int64_t width = work.slab_width(i);
                    const float* const first =
                        weight + 2 * begin * window + (kh * shape_.kernel_w + kw) * in + i;
                    make_bf16_pairs(first, first + window, width, end - begin, 2 * window,
                                    to + at + begin * width);
                });
        };
        for_ranges(shape_.out / 2, of_pairs, 2 * window);
    });
}

}  // namespace tutti
