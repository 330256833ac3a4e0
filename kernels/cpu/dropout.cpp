#include <cmath>

#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "tutti/base/random.hpp"

namespace tutti {
namespace {

/// keep[pixel, channel] of one sample. Elements are numbered channel by channel, as PyTorch has them, and
/// four neighbours share a block of random bits.
void draw(const RandomStream& random, std::uint64_t layer, std::uint64_t threshold, std::int64_t pixels,
          std::int64_t channels, unsigned char* keep) {
    std::int64_t channel = 0, pixel = 0;
    const std::int64_t count = pixels * channels;
    for (std::int64_t first = 0; first < count; first += 4) {
        const auto words = random.bits(layer << 32 | static_cast<std::uint64_t>(first / 4));
        for (std::size_t i = 0; i < 4 && channel < channels; ++i) {
            keep[pixel * channels + channel] = words[i] >= threshold ? 1 : 0;
            if (++pixel == pixels) {
                pixel = 0;
                ++channel;
            }
        }
    }
}

/// A product, as in PyTorch: what is not finite stays so where it is dropped, too.
template <class T>
void scale_kept(const T* in, const unsigned char* keep, T scale, std::int64_t begin, std::int64_t end,
                T* out) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) out[i] = in[i] * (keep[i] != 0 ? scale : T(0));
}

/// 1 / (1 − p); where nothing is kept its value does not matter.
template <class T>
T scale_of(double probability) {
    return probability < 1 ? static_cast<T>(1 / (1 - probability)) : T(0);
}

}  // namespace

template <class T>
void EigenOps<T>::dropout_forward(const DropoutAddress& address, double probability, const TensorView& x,
                                  const TensorView& y, const TensorView& keep) {
    const std::int64_t batch = x.shape[0];
    assert(y.count() == x.count() && keep.count() == x.count());
    assert(address.layer < 1u << 16);
    assert(static_cast<std::int64_t>(address.positions.size()) == batch);
    if (batch == 0) return;
    const std::int64_t count = x.count() / batch, channels = x.shape[x.shape.rank() - 1];
    const auto threshold = static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
    const T scale = scale_of<T>(probability);
    for_ranges(
        batch,
        [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                const RandomStream random(
                    address.seed, RandomPlace::dropout, static_cast<std::uint64_t>(address.epoch),
                    static_cast<std::uint64_t>(address.positions[static_cast<std::size_t>(n)]));
                unsigned char* kept = keep.as<unsigned char>() + n * count;
                draw(random, address.layer, threshold, count / channels, channels, kept);
                scale_kept(x.as<T>() + n * count, kept, scale, 0, count, y.as<T>() + n * count);
            }
        },
        8 * count);  // a block of random bits costs as much as many additions
}

template <class T>
void EigenOps<T>::dropout_backward(double probability, const TensorView& dy, const TensorView& keep,
                                   const TensorView& dx) {
    assert(dx.count() == dy.count() && keep.count() == dy.count());
    const T scale = scale_of<T>(probability);
    for_ranges(dy.count(), [&](std::int64_t begin, std::int64_t end) {
        scale_kept(dy.as<T>(), keep.as<unsigned char>(), scale, begin, end, dx.as<T>());
    });
}

template void EigenOps<float>::dropout_forward(const DropoutAddress&, double, const TensorView&,
                                               const TensorView&, const TensorView&);
template void EigenOps<double>::dropout_forward(const DropoutAddress&, double, const TensorView&,
                                                const TensorView&, const TensorView&);
template void EigenOps<float>::dropout_backward(double, const TensorView&, const TensorView&,
                                                const TensorView&);
template void EigenOps<double>::dropout_backward(double, const TensorView&, const TensorView&,
                                                 const TensorView&);

}  // namespace tutti
