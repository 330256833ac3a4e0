#pragma once
// The optimizers' updates of one segment of the arenas, as Ops::sgd, adam, adadelta, lamb_direction and
// lamb_apply have them: scalars by value, from the host. f32, any alignment, one launch each, with the CPU's
// bits. (sgd.hpp, adam.hpp and lamb.hpp update all segments in one launch, for a step that is captured.)
//
// Moves, per element: sgd 20 bytes (12 without momentum), adam 28, adadelta 28, lamb_direction 28, lamb_apply
// 12. Floor at 4.3 TB/s: Adam on 86 million parameters (ViT-B/16) in 560 µs.

#include "stream.hpp"
#include "tutti/device/ops.hpp"

namespace tutti::cuda {

void sgd(const SgdStep& step, const TensorView& gradient, const TensorView& parameter,
         const TensorView& momentum_buffer, Stream stream);
void adam(const AdamStep& step, const TensorView& gradient, const TensorView& parameter,
          const TensorView& first_moment, const TensorView& second_moment, Stream stream);
void adadelta(const AdadeltaStep& step, const TensorView& gradient, const TensorView& parameter,
              const TensorView& square_average, const TensorView& delta_average, Stream stream);
/// `update` may be `gradient`.
void lamb_direction(const LambStep& step, const TensorView& gradient, const TensorView& parameter,
                    const TensorView& first_moment, const TensorView& second_moment, const TensorView& update,
                    Stream stream);
/// squares: f64[2] in device memory.
void lamb_apply(double lr, const TensorView& squares, const TensorView& update, const TensorView& parameter,
                Stream stream);

}  // namespace tutti::cuda
