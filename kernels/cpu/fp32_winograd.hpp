#pragma once
// Convolutions of 3×3 in fp32 by Winograd's F(4×4, 3×3), 36 multiplications where the definition has 144; and
// of 3×3 or 4×4 that move by 2, as sums of such on the phases of the image (fp32_winograd_window.hpp): 81
// where the definition has 144, 100 where it has 256. The latter are also what a transposed convolution that
// doubles an image is made of.

#include "host_memory.hpp"
#include "tile_vector.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether these are faster than the library's Winograd, which oneDNN 2.6 has for AVX-512 alone. Measured on
/// Zen 5, batch 64, one core, ms forward / both gradients, the library's and ours compiled for AVX-512:
///     64→64, 28²    9.7 / 20.0    6.4 / 15.4        512→512, 4²   13.7 / 24.8    8.2 / 13.4
///     128→128, 14²  11.0 / 21.0   6.4 / 14.1        32→64, 14²     1.5 / –       1.06 / –
/// Compiled for AVX2 ours take 0.7 to 1.5 times as long as the library's with AVX-512.
inline constexpr bool outpaces_library_winograd = vector_bytes >= 64;

/// Whether forward and backward_data below compute this, and faster than a direct convolution: windows of 3×3
/// that move by 1, or of 3×3 or 4×4 that move by 2 with a padding of 1, one group, whole vectors of channels
/// (by 2: whole pairs of vectors of inputs) and many of them, and images of which tiles of 4×4 do not go too
/// far over the edge. Of windows that move by 2, measured likewise, the library's direct sums and ours:
///     4×4, 256→256, 96², batch 4    75.8 / 191     52.3 / 112
///     4×4, 256→512, 24², batch 16   37.3 / 89.4    22.4 / 48.0
///     3×3, 128→128, 56², batch 8     8.1 / 21.7     7.4 / 14.4
///     3×3, 128→256, 14², batch 64    7.5 / 17.9     9.1 / 18.9, not taken
bool takes_fp32_winograd(const Conv2dShape& shape);

/// y[N, OH, OW, O] of x[N, H, W, I] and weight[O, KH, KW, I]. The error of y (root of mean squares) is about
/// twice that of direct sums in fp32. bias: [O] or null. The bits depend neither on the number of threads nor
/// on what shares the batch.
void fp32_winograd_forward(const Conv2dShape& shape, std::int64_t batch, const float* x, const float* weight,
                           const float* bias, float* y, Workspace& workspace);

/// dx[N, H, W, I] of dy[N, OH, OW, O], likewise.
void fp32_winograd_backward_data(const Conv2dShape& shape, std::int64_t batch, const float* weight,
                                 const float* dy, float* dx, Workspace& workspace);

}  // namespace tutti
