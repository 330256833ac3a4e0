#include "../common/pixel.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

template <class T>
void EigenOps<T>::normalize(const TensorView& x, std::span<const float> mean, std::span<const float> std,
                            const TensorView& y) {
    const auto channels = static_cast<std::int64_t>(mean.size());
    assert(channels > 0 && std.size() == mean.size() && x.shape[x.shape.rank() - 1] == channels);
    assert(x.count() == y.count());
    if (x.dtype == DType::f32) {
        const float* const features = x.as<float>();
        T* const out = y.as<T>();
        for_ranges(
            x.count() / channels,
            [=](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin * channels; i < end * channels; i += channels)
                    for (std::int64_t c = 0; c < channels; ++c) {
                        const auto entry = static_cast<std::size_t>(c);
                        out[i + c] =
                            static_cast<T>(normalized_feature(features[i + c], mean[entry], std[entry]));
                    }
            },
            channels);
        return;
    }
    pixels_.set(mean, std);
    const unsigned char* const pixels = x.as<unsigned char>();
    T* const out = y.as<T>();
    for_ranges(
        x.count() / channels,
        [=, this](std::int64_t begin, std::int64_t end) {
            pixels_.apply(pixels + begin * channels, end - begin, out + begin * channels);
        },
        channels);
}

template void EigenOps<float>::normalize(const TensorView&, std::span<const float>, std::span<const float>,
                                         const TensorView&);
template void EigenOps<double>::normalize(const TensorView&, std::span<const float>, std::span<const float>,
                                          const TensorView&);

}  // namespace tutti
