#include "../common/masking_math.hpp"

#include <algorithm>

#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

struct KeyedPlace {
    std::uint64_t key;
    std::int64_t place;
};

/// Writes the tokens of places[0, count), ascending, and returns where the next belongs.
std::int64_t* write_tokens(KeyedPlace* places, std::int64_t count, std::int64_t repeats, std::int64_t* out) {
    std::sort(places, places + count,
              [](const KeyedPlace& a, const KeyedPlace& b) { return a.place < b.place; });
    for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t r = 0; r < repeats; ++r) *out++ = places[i].place * repeats + r;
    return out;
}

/// The tokens of one sample in their order; scratch: mask.places elements.
void order_tokens(const RandomStream& random, const TubeMask& mask, KeyedPlace* scratch,
                  std::int64_t* order) {
    for (std::int64_t p = 0; p < mask.places; ++p) scratch[p] = {mask_key(random, p), p};
    std::nth_element(scratch, scratch + mask.hidden, scratch + mask.places,
                     [](const KeyedPlace& a, const KeyedPlace& b) {
                         return hidden_before(a.key, a.place, b.key, b.place);
                     });
    order = write_tokens(scratch + mask.hidden, mask.places - mask.hidden, mask.repeats, order);
    write_tokens(scratch, mask.hidden, mask.repeats, order);
}

/// differences = prediction − the patch's channel, normalised. Elements are `channels` apart.
template <class T>
void subtract_channel(const T* prediction, const T* patch, std::int64_t count, std::int64_t channels,
                      double epsilon, T* differences) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(patch[i * channels]);
    const double mean = sum / static_cast<double>(count);
    for (std::int64_t i = 0; i < count; ++i) {
        const double d = static_cast<double>(patch[i * channels]) - mean;
        squares += d * d;
    }
    const PatchScale scale = PatchScale::of(mean, squares, count, epsilon);
    for (std::int64_t i = 0; i < count; ++i)
        differences[i * channels] =
            prediction[i * channels] - static_cast<T>(scale(static_cast<double>(patch[i * channels])));
}

/// Copies `tokens` tokens of each sample from token `first_from` on to token `first_to` on.
template <class T>
void copy_tokens(const TensorView& x, std::int64_t first_from, const TensorView& y, std::int64_t first_to,
                 std::int64_t tokens) {
    const std::int64_t samples = x.shape[0], width = x.shape[2];
    const std::int64_t x_size = x.shape[1] * width, y_size = y.shape[1] * width;
    const T* in = x.as<T>() + first_from * width;
    T* out = y.as<T>() + first_to * width;
    for_ranges(
        samples,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n)
                std::copy_n(in + n * x_size, tokens * width, out + n * y_size);
        },
        tokens * width);
}

}  // namespace

template <class T>
void EigenOps<T>::mask_tokens(const DropoutAddress& address, const TubeMask& mask, const TensorView& order) {
    const std::int64_t samples = order.shape[0];
    assert(order.shape[1] == mask.tokens() && 0 <= mask.hidden && mask.hidden < mask.places);
    assert(static_cast<std::int64_t>(address.positions.size()) == samples);
    auto* scratch = workspace_->reserve_elements<KeyedPlace>(static_cast<std::size_t>(samples * mask.places));
    std::int64_t* out = order.as<std::int64_t>();
    for_ranges(
        samples,
        [=, positions = address.positions, seed = address.seed, epoch = address.epoch](std::int64_t begin,
                                                                                       std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n)
                order_tokens(mask_stream(seed, epoch, positions[static_cast<std::size_t>(n)]), mask,
                             scratch + n * mask.places, out + n * mask.tokens());
        },
        64 * mask.places);  // numbers drawn, and sorted
}

template <class T>
void EigenOps<T>::running_cells(const DropoutAddress& address, const TubeMask& mask,
                                const RunningCells& cells, const TensorView& order,
                                const TensorView& decoded) {
    const std::int64_t samples = order.shape[0], visible = mask.visible_tokens();
    const std::int64_t each = cells.kept_per_place(mask), row = visible + cells.kept_tokens(mask);
    assert(order.shape[1] == mask.tokens() && mask.repeats % 4 == 0);
    assert(decoded.shape[0] == samples && decoded.shape[1] == row);
    assert(static_cast<std::int64_t>(address.positions.size()) == samples);
    const std::int64_t* in = order.as<std::int64_t>();
    std::int64_t* out = decoded.as<std::int64_t>();
    for_ranges(
        samples,
        [=, positions = address.positions, seed = address.seed, epoch = address.epoch](std::int64_t begin,
                                                                                       std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                const std::int64_t* from = in + n * mask.tokens();
                std::int64_t* to = std::copy_n(from, visible, out + n * row);
                const std::int64_t start =
                    cell_start(mask_stream(seed, epoch, positions[static_cast<std::size_t>(n)]), mask.places);
                for (std::int64_t p = 0; p < mask.places; ++p)
                    for (std::int64_t j = 0; j < each; ++j)
                        *to++ = kept_token(from[p * mask.repeats] / mask.repeats, mask.repeats, cells.columns,
                                           cells.dropped, start, j);
            }
        },
        8 * row);
}

template <class T>
void EigenOps<T>::take_tokens(const TensorView& x, const TensorView& order, const TensorView& y) {
    const std::int64_t samples = y.shape[0], taken = y.shape[1], tokens = x.shape[1], width = x.shape[2];
    assert(x.shape[0] == samples && taken <= tokens && order.count() == samples * tokens);
    assert(y.shape[2] == width);
    if (samples * taken == 0) return;
    const T* in = x.as<T>();
    const std::int64_t* from = order.as<std::int64_t>();
    T* out = y.as<T>();
    for_ranges(
        samples * taken,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t n = row / taken, k = row % taken;
                std::copy_n(in + (n * tokens + from[n * tokens + k]) * width, width, out + row * width);
            }
        },
        width);
}

template <class T>
void EigenOps<T>::fill_tokens_forward(const TensorView& x, const TensorView& mask_token,
                                      const TensorView& positions, const TensorView& order,
                                      const TensorView& y) {
    const std::int64_t samples = y.shape[0], filled = y.shape[1], visible = x.shape[1], width = y.shape[2];
    const std::int64_t listed = order.shape[1];
    assert(x.shape[0] == samples && x.shape[2] == width && visible <= filled && filled <= listed);
    assert(order.shape[0] == samples && (visible == filled || mask_token.count() == width));
    if (samples * filled == 0) return;
    const T* in = x.as<T>();
    const T* token = visible < filled ? mask_token.as<T>() : nullptr;
    const T* position = positions.as<T>();
    const std::int64_t* place = order.as<std::int64_t>();
    T* out = y.as<T>();
    for_ranges(
        samples * filled,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t n = row / filled, k = row % filled;
                const T* from = k < visible ? in + (n * visible + k) * width : token;
                const T* at = position + place[n * listed + k] * width;
                T* to = out + row * width;
#pragma omp simd
                for (std::int64_t i = 0; i < width; ++i) to[i] = from[i] + at[i];
            }
        },
        width);
}

template <class T>
void EigenOps<T>::fill_tokens_backward(const TensorView& dy, const TensorView& dx,
                                       const TensorView& dmask_token, std::int64_t visible) {
    const std::int64_t samples = dy.shape[0], filled = dy.shape[1], width = dy.shape[2];
    assert(visible <= filled && dmask_token.defined() == (visible < filled));
    assert(!dx.defined() || dx.count() == samples * visible * width);
    if (dx.defined()) copy_tokens<T>(dy, 0, dx, 0, visible);
    if (!dmask_token.defined()) return;
    const T* dout = dy.as<T>();
    T* sums = dmask_token.as<T>();
    const std::int64_t hidden = filled - visible;
    const std::int64_t shares = samples * hidden * width > elements_worth_threads ? omp_get_max_threads() : 1;
    // Columns are dealt, so that each is summed by one thread, row after row.
    for_shares(width, shares, [=](std::int64_t, std::int64_t begin, std::int64_t end) {
        std::fill(sums + begin, sums + end, T(0));
        run_parts(
            [=](std::int64_t first, std::int64_t last) {
                for (std::int64_t row = first; row < last; ++row) {
                    const T* from = dout + (row / hidden * filled + visible + row % hidden) * width;
#pragma omp simd
                    for (std::int64_t i = begin; i < end; ++i) sums[i] += from[i];
                }
            },
            0, samples * hidden, end - begin);
    });
}

template <class T>
void EigenOps<T>::last_tokens_forward(const TensorView& x, const TensorView& y) {
    assert(x.shape[0] == y.shape[0] && x.shape[2] == y.shape[2] && y.shape[1] <= x.shape[1]);
    copy_tokens<T>(x, x.shape[1] - y.shape[1], y, 0, y.shape[1]);
}

template <class T>
void EigenOps<T>::last_tokens_backward(const TensorView& dy, const TensorView& dx) {
    const std::int64_t samples = dx.shape[0], width = dx.shape[2], skipped = dx.shape[1] - dy.shape[1];
    assert(dy.shape[0] == samples && dy.shape[2] == width && skipped >= 0);
    copy_tokens<T>(dy, 0, dx, skipped, dy.shape[1]);
    T* din = dx.as<T>();
    for_ranges(
        samples,
        [=, size = dx.shape[1] * width](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) std::fill_n(din + n * size, skipped * width, T(0));
        },
        skipped * width);
}

template <class T>
void EigenOps<T>::patch_differences(const TensorView& prediction, const TensorView& patches,
                                    const TensorView& order, const TensorView& epsilon,
                                    const TensorView& differences) {
    const std::int64_t samples = prediction.shape[0], hidden = prediction.shape[1];
    const std::int64_t tokens = patches.shape[1], width = patches.shape[2], channels = epsilon.count();
    const std::int64_t listed = order.shape[1];
    assert(patches.shape[0] == samples && hidden <= tokens && prediction.shape[2] == width);
    assert(order.shape[0] == samples && hidden <= listed && differences.count() == prediction.count());
    assert(width % channels == 0);
    if (samples * hidden == 0) return;
    const T* in = prediction.as<T>();
    const T* patch = patches.as<T>();
    const std::int64_t* place = order.as<std::int64_t>();
    const T* eps = epsilon.as<T>();
    T* out = differences.as<T>();
    for_ranges(
        samples * hidden,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t n = row / hidden, j = row % hidden;
                const std::int64_t token = n * tokens + place[n * listed + listed - hidden + j];
                for (std::int64_t c = 0; c < channels; ++c)
                    subtract_channel(in + row * width + c, patch + token * width + c, width / channels,
                                     channels, static_cast<double>(eps[c]), out + row * width + c);
            }
        },
        8 * width);  // sums one after the other
}

#define TUTTI_INSTANTIATE(T)                                                                                 \
    template void EigenOps<T>::mask_tokens(const DropoutAddress&, const TubeMask&, const TensorView&);       \
    template void EigenOps<T>::running_cells(const DropoutAddress&, const TubeMask&, const RunningCells&,    \
                                             const TensorView&, const TensorView&);                          \
    template void EigenOps<T>::take_tokens(const TensorView&, const TensorView&, const TensorView&);         \
    template void EigenOps<T>::fill_tokens_forward(const TensorView&, const TensorView&, const TensorView&,  \
                                                   const TensorView&, const TensorView&);                    \
    template void EigenOps<T>::fill_tokens_backward(const TensorView&, const TensorView&, const TensorView&, \
                                                    std::int64_t);                                           \
    template void EigenOps<T>::last_tokens_forward(const TensorView&, const TensorView&);                    \
    template void EigenOps<T>::last_tokens_backward(const TensorView&, const TensorView&);                   \
    template void EigenOps<T>::patch_differences(const TensorView&, const TensorView&, const TensorView&,    \
                                                 const TensorView&, const TensorView&)
TUTTI_INSTANTIATE(float);
TUTTI_INSTANTIATE(double);
#undef TUTTI_INSTANTIATE

}  // namespace tutti
