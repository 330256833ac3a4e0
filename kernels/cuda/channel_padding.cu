#include "channel_padding.hpp"

#include "launch.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

template <class In, class Out>
__global__ void __launch_bounds__(256)
    move_rows(const In* RESTRICT x, int channels, Out* RESTRICT y, int padded, std::int64_t count) {
    for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
        const std::int64_t row = i / padded;
        const int c = static_cast<int>(i - row * padded);
        const float value[1] = {c < channels ? to_float(x[row * channels + c]) : 0.0f};
        store(y + i, value);
    }
}

}  // namespace

void pad_channels(const TensorView& x, const TensorView& y, Stream stream) {
    const std::int64_t channels = x.shape[x.shape.rank() - 1], padded = y.shape[y.shape.rank() - 1];
    assert(x.count() * padded == y.count() * channels);
    with_storage(x.dtype, [&]<class In>(Storage<In>) {
        with_storage(y.dtype, [&]<class Out>(Storage<Out>) {
            launch("pad_channels", move_rows<In, Out>, elementwise(y.count()), stream, elements<const In>(x),
                   static_cast<int>(channels), elements<Out>(y), static_cast<int>(padded), y.count());
        });
    });
}

}  // namespace tutti::cuda
