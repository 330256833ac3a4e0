// dweight[o, kh, kw, i] = Σ dy[n, oh, ow, o] · x[n, sh·oh + kh − ph, sw·ow + kw − pw, i]. The instruction
// adds two products at a time, so both operands become pairs of pixels that are neighbours in a row of dy:
//
//   left   [slab of O][image][OH · row pairs][channels of the slab]
//   right  [slab of I][KW][image][rows of x, (h + ph) mod sh first][row pairs][channels of the slab]
//
// An odd row's last pair has a zero in left. For each kh the rows of x that meet the rows of dy then lie one
// behind the other, and an image is one run of steps. Some images at a time are packed and then multiplied
// while they are in the cache.

#include "bf16_weight_gradient.hpp"

#include <algorithm>

#include "../common/counts.hpp"
#include "amx_products.hpp"
#include "amx_weight_gradient.hpp"
#include "bf16_pairs.hpp"
#include "bf16_tile.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

constexpr std::int64_t in_slab = bf16_lanes * most_bf16_vectors, out_slab = 48;

class WeightGradient {
  public:
    WeightGradient(const Conv2dShape& shape, std::int64_t batch)
        : s_(shape),
          row_pairs_(divided_up(shape.out_width(), 2)),
          image_pairs_(shape.out_height() * row_pairs_),
          rows_of_phase_(divided_up(shape.height + 2 * shape.padding_h, shape.stride_h)),
          version_pairs_(rows_of_phase_ * shape.stride_h * row_pairs_),
          image_size_(image_pairs_ * shape.out + version_pairs_ * shape.kernel_w * shape.in),
          at_once_(images_at_once(batch)) {}

    std::int64_t at_once() const { return at_once_; }
    std::int64_t packed_size() const {
        return left_size() + at_once_ * s_.in * s_.kernel_w * version_pairs_ +
               divided_up(s_.in, in_slab) * s_.kernel_w * gap;
    }

    /// One image, as the image-th of `packed`.
    template <class Value>
    void pack(std::int64_t image, const Value* x, const Value* dy, const GradientOfOutput& also,
              float* bias_part, Bf16Pair* packed) const {
        pack_gradient(image, dy, also, bias_part, packed);
        pack_input(image, x, packed);
    }

    /// Work is cut along dweight: each part of it is one thread's alone.
    std::int64_t items() const {
        return s_.kernel_h * s_.kernel_w * divided_up(s_.in, in_slab) * divided_up(s_.out, out_slab);
    }
    void multiply(std::int64_t item, std::int64_t images, const Bf16Pair* packed, float* dweight, bool add,
                  MemoryAhead ahead) const {
        const std::int64_t out_slabs = divided_up(s_.out, out_slab);
        const std::int64_t out = item % out_slabs * out_slab;
        const std::int64_t window = item / out_slabs % (s_.kernel_h * s_.kernel_w);
        const std::int64_t in = item / out_slabs / (s_.kernel_h * s_.kernel_w) * in_slab;
        const std::int64_t kh = window / s_.kernel_w, kw = window % s_.kernel_w;
        const std::int64_t rows = std::min(out_slab, s_.out - out), columns = std::min(in_slab, s_.in - in);
        // Of dy, those rows whose x is not padding.
        const std::int64_t first = divided_up(std::max<std::int64_t>(s_.padding_h - kh, 0), s_.stride_h);
        const std::int64_t beyond = s_.padding_h + s_.height - kh;
        const std::int64_t end =
            beyond <= 0 ? first : std::min(divided_up(beyond, s_.stride_h), s_.out_height());
        const std::int64_t input_row = kh % s_.stride_h * rows_of_phase_ + kh / s_.stride_h + first;
        const PairRuns runs{images,
                            std::max<std::int64_t>(end - first, 0) * row_pairs_,
                            image_pairs_ * rows,
                            version_pairs_ * columns,
                            rows,
                            columns};
        multiply_bf16_pairs(rows, columns, runs, left(packed, 0, out) + first * row_pairs_ * rows,
                            right(packed, 0, in, kw) + input_row * row_pairs_ * columns,
                            {dweight + (out * s_.kernel_h * s_.kernel_w + window) * s_.in + in,
                             s_.kernel_h * s_.kernel_w * s_.in, add, nullptr, &ahead});
    }

  private:
    /// So many that a block's sums are long beside their way to memory, and no more than stay in a core's
    /// cache.
    std::int64_t images_at_once(std::int64_t batch) const {
        constexpr std::int64_t enough_pairs = 128, cache_pairs = (std::int64_t{1} << 20) / sizeof(Bf16Pair);
        const std::int64_t enough = divided_up(enough_pairs, image_pairs_);
        return std::clamp<std::int64_t>(std::min(enough, cache_pairs / image_size_), 1, batch);
    }

    // The first pairs of an image in a slab that begins with channel `out` or `in`. A gap between slabs keeps
    // them from lying a multiple of 4096 bytes apart, where they would push each other out of the cache.
    static constexpr std::int64_t gap = 5 * bf16_lanes;
    template <class Pair>
    Pair* left(Pair* packed, std::int64_t image, std::int64_t out) const {
        return packed + (at_once_ * out + image * std::min(out_slab, s_.out - out)) * image_pairs_ +
               out / out_slab * gap;
    }
    template <class Pair>
    Pair* right(Pair* packed, std::int64_t image, std::int64_t in, std::int64_t kw) const {
        const std::int64_t channels = std::min(in_slab, s_.in - in);
        return packed + left_size() +
               (at_once_ * (in * s_.kernel_w + kw * channels) + image * channels) * version_pairs_ +
               (in / in_slab * s_.kernel_w + kw) * gap;
    }
    /// Whole vectors, so that right's do not lie across cache lines.
    std::int64_t left_size() const {
        return divided_up(at_once_ * s_.out * image_pairs_, bf16_lanes) * bf16_lanes +
               divided_up(s_.out, out_slab) * gap;
    }

    template <class Value>
    void pack_gradient(std::int64_t image, const Value* dy, const GradientOfOutput& also, float* bias_part,
                       Bf16Pair* packed) const {
        const std::int64_t width = s_.out_width(), slabs = s_.out / out_slab, in_slabs = slabs * out_slab;
        // Of `times` pairs of pixels, or of one alone.
        const auto make = [&](std::int64_t pixel, bool pair, std::int64_t times, std::int64_t pairs_before) {
            const Value* const first = dy + pixel * s_.out;
            const auto rounded = [&](std::int64_t out) {
                RoundedRows rows;
                if (also.rounded) rows.first = also.rounded + pixel * s_.out + out;
                if (bias_part) rows.sums = bias_part + out;
                return rows;
            };
            const auto second = [&](std::int64_t out) { return pair ? first + s_.out + out : nullptr; };
            if (slabs > 0)
                make_bf16_pairs_in_slabs(first, second(0), out_slab, slabs, times, 2 * s_.out,
                                         left(packed, image, 0) + pairs_before * out_slab,
                                         at_once_ * out_slab * image_pairs_ + gap, rounded(0));
            if (in_slabs < s_.out)
                make_bf16_pairs(first + in_slabs, second(in_slabs), s_.out - in_slabs, times, 2 * s_.out,
                                left(packed, image, in_slabs) + pairs_before * (s_.out - in_slabs),
                                rounded(in_slabs));
        };
        for (std::int64_t row = 0; row < s_.out_height(); ++row) {
            make(row * width, true, width / 2, row * row_pairs_);
            if (width % 2 != 0) make(row * width + width - 1, false, 1, row * row_pairs_ + width / 2);
        }
    }

    template <class Value>
    void pack_input(std::int64_t image, const Value* x, Bf16Pair* packed) const {
        const std::int64_t slabs = s_.in / in_slab, in_slabs = slabs * in_slab;
        for (std::int64_t kw = 0; kw < s_.kernel_w; ++kw)
            for (std::int64_t h = 0; h < s_.height; ++h) {
                const std::int64_t padded = h + s_.padding_h;
                const std::int64_t row = padded % s_.stride_h * rows_of_phase_ + padded / s_.stride_h;
                const Value* const from = x + h * s_.width * s_.in;
                if (slabs > 0)
                    pack_row(from, kw, in_slab, slabs,
                             right(packed, image, 0, kw) + row * row_pairs_ * in_slab);
                if (in_slabs < s_.in)
                    pack_row(from + in_slabs, kw, s_.in - in_slabs, 1,
                             right(packed, image, in_slabs, kw) + row * row_pairs_ * (s_.in - in_slabs));
            }
    }
    /// `slabs` of so many channels each.
    template <class Value>
    void pack_row(const Value* x, std::int64_t kw, std::int64_t channels, std::int64_t slabs,
                  Bf16Pair* to) const {
        const std::int64_t slab_step = (at_once_ * in_slab * version_pairs_ + gap) * s_.kernel_w;
        const std::int64_t step = 2 * s_.stride_w, offset = kw - s_.padding_w;
        // Pairs of which both columns, step · pair + offset and stride_w behind it, are in the image.
        const std::int64_t first = std::min(divided_up(std::max<std::int64_t>(-offset, 0), step), row_pairs_);
        const std::int64_t last = s_.width - 1 - s_.stride_w - offset;
        const std::int64_t end = std::clamp(last < 0 ? 0 : last / step + 1, first, row_pairs_);
        const auto pixel = [&](std::int64_t column, std::int64_t slab) {
            return column >= 0 && column < s_.width ? x + column * s_.in + slab * in_slab : nullptr;
        };
        const auto at_edge = [&](std::int64_t pair) {
            const std::int64_t column = step * pair + offset;
            for (std::int64_t slab = 0; slab < slabs; ++slab)
                make_bf16_pairs(pixel(column, slab), pixel(column + s_.stride_w, slab), channels,
                                to + slab * slab_step + pair * channels);
        };
        for (std::int64_t pair = 0; pair < first; ++pair) at_edge(pair);
        if (first < end) {
            const Value* const from = x + (step * first + offset) * s_.in;
            const Value* const beside = from + s_.stride_w * s_.in;
            if (channels == in_slab)
                make_bf16_pairs_in_slabs(from, beside, in_slab, slabs, end - first, step * s_.in,
                                         to + first * channels, slab_step);
            else
                make_bf16_pairs(from, beside, channels, end - first, step * s_.in, to + first * channels);
        }
        for (std::int64_t pair = end; pair < row_pairs_; ++pair) at_edge(pair);
    }

    const Conv2dShape& s_;
    const std::int64_t row_pairs_, image_pairs_, rows_of_phase_, version_pairs_, image_size_, at_once_;
};

}  // namespace

bool takes_bf16_weight_gradient(const Conv2dShape& shape) {
    return has_bf16_tiles() && shape.groups == 1 && shape.in % bf16_lanes == 0;
}
bool takes_bf16_weight_gradient(const LinearShape& shape) {
    return has_bf16_tiles() && shape.in % bf16_lanes == 0;
}

template <class Value>
void bf16_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const Value* x, const Value* dy,
                          float* dweight, const GradientOfOutput& also, bool add, Workspace& workspace) {
    const WeightGradient work(shape, batch);
    const std::int64_t at_once = work.at_once();
    const std::int64_t x_size = shape.height * shape.width * shape.in;
    const std::int64_t dy_size = shape.out_height() * shape.out_width() * shape.out;
    const std::int64_t packed_size = work.packed_size();
    const std::int64_t bias_size = also.bias ? at_once * shape.out : 0;
    auto* const packed =
        workspace.reserve_elements<Bf16Pair>(static_cast<std::size_t>(packed_size + bias_size));
    auto* const bias_parts = reinterpret_cast<float*>(packed + packed_size);
    if (also.bias && !add) std::fill_n(also.bias, shape.out, 0.0f);

    const std::int64_t threads = omp_get_max_threads();
    for (std::int64_t first = 0; first < batch; first += at_once, add = true) {
        const std::int64_t images = std::min(at_once, batch - first);
        std::fill_n(bias_parts, also.bias ? images * shape.out : 0, 0.0f);
        for_shares(images, std::min(images, threads),
                   [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) {
                           GradientOfOutput of_image;
                           if (also.rounded) of_image.rounded = also.rounded + (first + i) * dy_size;
                           work.pack(i, x + (first + i) * x_size, dy + (first + i) * dy_size, of_image,
                                     also.bias ? bias_parts + i * shape.out : nullptr, packed);
                       }
                   });
        for (std::int64_t i = 0; also.bias && i < images; ++i)
            for (std::int64_t o = 0; o < shape.out; ++o) also.bias[o] += bias_parts[i * shape.out + o];
        // While these images are multiplied, the next ones come into the cache, a share with each item.
        const std::int64_t next = first + images, count = std::min(at_once, batch - next);
        const auto share = [&](const auto* all, std::int64_t size, std::int64_t item) {
            if (!all) return MemoryAhead::Range();
            const std::int64_t in_line = 64 / static_cast<std::int64_t>(sizeof(*all));
            const std::int64_t lines = count * size / in_line, from = share_begin(lines, work.items(), item);
            return MemoryAhead::Range{all + next * size + from * in_line,
                                      share_begin(lines, work.items(), item + 1) - from};
        };
        for_shares(work.items(), std::min(work.items(), threads),
                   [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t item = begin; item < end; ++item)
                           work.multiply(item, images, packed, dweight, add,
                                         {{share(x, x_size, item), share(dy, dy_size, item),
                                           share(also.rounded, dy_size, item)}});
                   });
    }
}

template void bf16_weight_gradient(const Conv2dShape&, std::int64_t, const float*, const float*, float*,
                                   const GradientOfOutput&, bool, Workspace&);
template void bf16_weight_gradient(const Conv2dShape&, std::int64_t, const std::uint16_t*,
                                   const std::uint16_t*, float*, const GradientOfOutput&, bool, Workspace&);

void bf16_weight_gradient(const LinearShape& shape, std::int64_t rows, const float* x, const float* dy,
                          float* dweight, const GradientOfOutput& also, Workspace& workspace) {
    if (has_amx_products()) return amx_linear_weight_gradient(shape, rows, x, dy, dweight, also, workspace);
    // Some rows are the pixels of an image.
    constexpr std::int64_t most = 128;
    Conv2dShape some;
    some.height = 1;
    some.in = shape.in;
    some.out = shape.out;
    bool add = false;
    const auto compute = [&](std::int64_t first, std::int64_t images, std::int64_t pixels) {
        if (images == 0 || pixels == 0) return;
        some.width = pixels;
        GradientOfOutput part = also;
        if (part.rounded) part.rounded += first * shape.out;
        bf16_weight_gradient(some, images, x + first * shape.in, dy + first * shape.out, dweight, part, add,
                             workspace);
        add = true;
    };
    compute(0, rows / most, most);
    compute(rows / most * most, 1, rows % most);
}

}  // namespace tutti
