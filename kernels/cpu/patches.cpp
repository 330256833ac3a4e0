// Patches of images and clips as tokens, and back.

#include <algorithm>

#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Calls move(segment of x, row of the tokens) for each run of elements that lies together in both: the row
/// of a patch.
template <class Move>
void for_rows(const PatchShape& s, std::int64_t samples, const Move& move) {
    if (s.frames % s.patch_frames != 0 || s.height % s.patch_height != 0 || s.width % s.patch_width != 0)
        throw UsageError("patches: the patch's size does not divide the image's",
                         "choose a patch whose frames, height and width divide those of the input");
    const std::int64_t columns = s.width / s.patch_width, rows = s.height / s.patch_height;
    const std::int64_t rows_of_patch = s.patch_frames * s.patch_height;
    for_ranges(
        samples * s.frames * s.height,
        [=, &move](std::int64_t begin, std::int64_t end) {
            for (std::int64_t line = begin; line < end; ++line) {
                const std::int64_t h = line % s.height, plane = line / s.height;
                const std::int64_t f = plane % s.frames, n = plane / s.frames;
                const std::int64_t patch =
                    ((n * (s.frames / s.patch_frames) + f / s.patch_frames) * rows + h / s.patch_height) *
                    columns;
                const std::int64_t row = f % s.patch_frames * s.patch_height + h % s.patch_height;
                for (std::int64_t column = 0; column < columns; ++column)
                    move(line * columns + column, (patch + column) * rows_of_patch + row);
            }
        },
        s.width * s.channels);
}

}  // namespace

template <class T>
void EigenOps<T>::extract_patches(const PatchShape& shape, const TensorView& x, const TensorView& tokens) {
    assert(x.count() == x.shape[0] * shape.tokens() * shape.token_width() && tokens.count() == x.count());
    const std::int64_t width = shape.patch_width * shape.channels;
    const T* from = x.as<T>();
    T* to = tokens.as<T>();
    for_rows(shape, x.shape[0], [=](std::int64_t segment, std::int64_t row) {
        std::copy_n(from + segment * width, width, to + row * width);
    });
}

template <class T>
void EigenOps<T>::join_patches(const PatchShape& shape, const TensorView& tokens, const TensorView& x) {
    assert(x.count() == x.shape[0] * shape.tokens() * shape.token_width() && tokens.count() == x.count());
    const std::int64_t width = shape.patch_width * shape.channels;
    const T* from = tokens.as<T>();
    T* to = x.as<T>();
    for_rows(shape, x.shape[0], [=](std::int64_t segment, std::int64_t row) {
        std::copy_n(from + row * width, width, to + segment * width);
    });
}

#define TUTTI_INSTANTIATE(T)                                                                             \
    template void EigenOps<T>::extract_patches(const PatchShape&, const TensorView&, const TensorView&); \
    template void EigenOps<T>::join_patches(const PatchShape&, const TensorView&, const TensorView&)
TUTTI_INSTANTIATE(float);
TUTTI_INSTANTIATE(double);
#undef TUTTI_INSTANTIATE

}  // namespace tutti
