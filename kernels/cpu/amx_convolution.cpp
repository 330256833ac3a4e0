// Some images at a time are rounded, with their padding, and multiplied with all weights while they are in
// the cache:
//
//   weights  [slab of columns][tap][pairs of the summed channels][columns of the slab]
//   images   [plane][image][pixel of the plane][summed channels], in bf16
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
                Grid grid{down.phase, across.phase, down.size, across.size, taps(), 0};
                for (const TapAxis::Tap& y : down.taps)
                    for (const TapAxis::Tap& x : across.taps) {
                        const std::int64_t plane = y.plane * columns_.planes + x.plane;
                        const std::int64_t offset = y.offset * columns_.pitch + x.offset;
                        taps_.push_back({y.window, x.window, plane, offset});
                        used_planes_.push_back(plane);
                        ++grid.taps;
                    }
                grids_.push_back(std::move(grid));
            }
        std::sort(used_planes_.begin(), used_planes_.end());
        used_planes_.erase(std::unique(used_planes_.begin(), used_planes_.end()), used_planes_.end());
    }

    std::int64_t pairs() const { return from_channels_ / 2; }
    std::int64_t taps() const { return static_cast<std::int64_t>(taps_.size()); }
    std::int64_t weights_size() const { return taps() * pairs() * to_channels_; }
    /// Calls place(row of the window, column, where its weights of pair 0 and column `column` lie).
    template <class Place>
    void for_taps(std::int64_t column, const Place& place) const {
        const std::int64_t first = column / slab * slab, width = slab_width(column);
        for (std::int64_t tap = 0; tap < taps(); ++tap) {
            const Tap& at = taps_[static_cast<std::size_t>(tap)];
            place(at.y, at.x, taps() * pairs() * first + tap * pairs() * width + column - first);
        }
    }
    std::int64_t slab_width(std::int64_t column) const {
        return std::min(slab, to_channels_ - column / slab * slab);
    }

    /// What a thread needs besides, in elements of 4 bytes.
    std::int64_t scratch_size(std::int64_t at_once) const {
        return starts_size() + images_size(at_once) + rows_at_once() * columns_.pitch * slab;
    }
    /// So many images at a time that they stay in a core's cache.
    std::int64_t images_at_once(std::int64_t batch) const {
        constexpr std::int64_t cache = (std::int64_t{512} << 10) / sizeof(Bf16Pair);
        const std::int64_t threads = omp_get_max_threads();
        const std::int64_t size = static_cast<std::int64_t>(used_planes_.size()) * image_pixels() * pairs();
        return std::clamp<std::int64_t>(cache / std::max<std::int64_t>(size, 1), 1,
                                        (batch + threads - 1) / threads);
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
        const auto scratch_of = [&](std::int64_t share) {
            Bf16Pair* const own = scratch + share * scratch_size(at_once);
            return Scratch{reinterpret_cast<std::int64_t*>(own), own + starts_size(),
                           reinterpret_cast<float*>(own + starts_size() + images_size(at_once))};
        };
        const std::int64_t shares = std::min<std::int64_t>(blocks, threads);
        for_shares(shares, shares, [&](std::int64_t share, std::int64_t, std::int64_t) {
            const Scratch own = scratch_of(share);
            std::fill_n(own.images, images_size(at_once), Bf16Pair{0});
            for (std::size_t tap = 0; tap < taps_.size(); ++tap)
                own.starts[tap] = (taps_[tap].plane * plane_pixels(at_once) + taps_[tap].offset) * pairs();
        });
        for (std::int64_t part = 0; part < parts; ++part) {
            const std::int64_t first = share_begin(blocks, parts, part);
            const std::int64_t count = share_begin(blocks, parts, part + 1) - first;
            for_shares(count, std::min<std::int64_t>(count, threads),
                       [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
                           const Scratch own = scratch_of(share);
                           for (std::int64_t block = first + begin; block < first + end; ++block) {
                               const std::int64_t image = block * at_once;
                               const std::int64_t images = std::min(at_once, batch - image);
                               for (std::int64_t i = 0; i < images; ++i)
                                   round(from + (image + i) * rows_.from * columns_.from * from_channels_, i,
                                         at_once, own.images);
                               float* const results = to + image * to_height_ * to_width_ * to_channels_;
                               for (std::int64_t column = 0; column < to_channels_; column += slab)
                                   for (const Grid& grid : grids_)
                                       multiply(grid, column, images, weights, bias ? bias + column : nullptr,
                                                results, own);
                           }
                       });
        }
    }

  private:
    struct Tap {
        std::int64_t y, x;  // in the window
        std::int64_t plane, offset;
    };
    struct Grid {
        std::int64_t top, left, height, width;  // its first output, and how many there are
        std::int64_t first_tap, taps;
    };
    struct Scratch {
        std::int64_t* starts;  // where the first output of the first image meets each tap, in pairs
        Bf16Pair* images;
        float* sums;
    };

    static std::int64_t whole_vectors(std::int64_t size) {
        return (size + bf16_lanes - 1) / bf16_lanes * bf16_lanes;
    }
    std::int64_t starts_size() const {
        return whole_vectors(taps() * static_cast<std::int64_t>(sizeof(std::int64_t) / sizeof(Bf16Pair)));
    }
    std::int64_t image_pixels() const { return rows_.pitch * columns_.pitch; }
    std::int64_t plane_pixels(std::int64_t images) const {
        return (images - 1) * image_pixels() + rows_.reach * columns_.pitch + columns_.reach;
    }
    std::int64_t images_size(std::int64_t images) const {
        return whole_vectors(rows_.planes * columns_.planes * plane_pixels(images) * pairs());
    }
    /// Rows that are summed at a time: enough for the unit, and their sums stay in the cache.
    std::int64_t rows_at_once() const {
        constexpr std::int64_t pixels = 192;
        return std::max<std::int64_t>(pixels / columns_.pitch, 1);
    }

    /// The image as the number-th of at_once.
    void round(const float* from, std::int64_t number, std::int64_t at_once, Bf16Pair* images) const {
        auto* const rounded = reinterpret_cast<std::uint16_t*>(images);
        for (const std::int64_t plane : used_planes_) {
            const std::int64_t down = plane / columns_.planes, across = plane % columns_.planes;
            const std::int64_t x = columns_.first_in(across), count = columns_.count_in(across);
            if (count == 0) continue;
            const std::int64_t first = plane * plane_pixels(at_once) + number * image_pixels();
            for (std::int64_t y = rows_.first_in(down); y < rows_.from; y += rows_.planes) {
                const std::int64_t pixel = first + rows_.place_of(y) * columns_.pitch + columns_.place_of(x);
                round_to_bf16(from + (y * columns_.from + x) * from_channels_,
                              columns_.planes * from_channels_, count, from_channels_,
                              rounded + pixel * from_channels_);
            }
        }
    }

    /// The rows of all images one behind the other, those between two images, too, some at a time.
    void multiply(const Grid& grid, std::int64_t column, std::int64_t images, const Bf16Pair* weights,
                  const float* bias, float* to, const Scratch& own) const {
        const std::int64_t width = slab_width(column), pitch = columns_.pitch;
        const Bf16Pair* const right = weights + taps() * pairs() * column + grid.first_tap * pairs() * width;
        const PairRuns runs{grid.taps, pairs(), 0, pairs() * width, 1, width, pairs()};
        const std::int64_t last = (images - 1) * rows_.pitch + grid.height;
        for (std::int64_t row = 0; row < last; row += rows_at_once()) {
            const std::int64_t rows = std::min(rows_at_once(), last - row);
            multiply_amx_runs((rows - 1) * pitch + grid.width, width, runs, own.starts + grid.first_tap,
                              own.images + row * pitch * pairs(), right,
                              {own.sums, width, false, bias, nullptr});
            for (std::int64_t r = 0; r < rows; ++r) {
                const std::int64_t image = (row + r) / rows_.pitch, y = (row + r) % rows_.pitch;
                if (y >= grid.height) continue;
                const std::int64_t to_row = image * to_height_ + grid.top + y * rows_.step;
                float* at = to + (to_row * to_width_ + grid.left) * to_channels_ + column;
                const float* sum = own.sums + r * pitch * width;
                for (std::int64_t x = 0; x < grid.width;
                     ++x, sum += width, at += columns_.step * to_channels_)
                    std::memcpy(at, sum, static_cast<std::size_t>(width) * sizeof(float));
            }
        }
    }

    const TapAxis rows_, columns_;
    const std::int64_t to_height_, to_width_, from_channels_, to_channels_;
    std::vector<Grid> grids_;
    std::vector<Tap> taps_;
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
