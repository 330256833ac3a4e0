#include "patches.hpp"

#include "pixels.hpp"
#include "tutti/base/error.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// Rows of a patch lie together in both layouts; each is `units` accesses of sizeof(Unit) bytes.
struct Plan {
    unsigned frames, height;  ///< of the image
    unsigned columns, rows;   ///< patches side by side, and one below another
    unsigned patch_frames, patch_height, units;
    unsigned items;
};

/// A thread moves one unit; `item` counts units of the image in memory order.
template <class Unit, bool join>
__global__ void __launch_bounds__(256) move_patches(Plan s, const Unit* RESTRICT from, Unit* RESTRICT to) {
    for_items(s.items, [&](unsigned item) {
        const unsigned unit = item % s.units, segment = item / s.units;
        const unsigned column = segment % s.columns, line = segment / s.columns;
        const unsigned h = line % s.height, plane = line / s.height;
        const unsigned f = plane % s.frames, n = plane / s.frames;
        const unsigned patch =
            ((n * (s.frames / s.patch_frames) + f / s.patch_frames) * s.rows + h / s.patch_height) *
                s.columns +
            column;
        const unsigned row = f % s.patch_frames * s.patch_height + h % s.patch_height;
        const std::int64_t token =
            (static_cast<std::int64_t>(patch) * s.patch_frames * s.patch_height + row) * s.units + unit;
        if (join)
            to[item] = from[token];
        else
            to[token] = from[item];
    });
}

template <class Unit, bool join>
void move(const PatchShape& s, std::int64_t samples, std::int64_t row_bytes, const TensorView& from,
          const TensorView& to, Stream stream) {
    const auto narrow = [](std::int64_t size) { return static_cast<unsigned>(size); };
    const std::int64_t units = row_bytes / static_cast<std::int64_t>(sizeof(Unit));
    const std::int64_t columns = s.width / s.patch_width, per_sample = s.frames * s.height * columns * units;
    for_samples(samples, per_sample, [&](std::int64_t first, std::int64_t, unsigned items) {
        const Plan plan{narrow(s.frames),       narrow(s.height),
                        narrow(columns),        narrow(s.height / s.patch_height),
                        narrow(s.patch_frames), narrow(s.patch_height),
                        narrow(units),          items};
        launch(join ? "join_patches" : "extract_patches", move_patches<Unit, join>, elementwise(items),
               stream, plan, reinterpret_cast<const Unit*>(from.data) + first * per_sample,
               reinterpret_cast<Unit*>(to.data) + first * per_sample);
    });
}

template <bool join>
void move(const PatchShape& s, const TensorView& image, const TensorView& from, const TensorView& to,
          Stream stream) {
    if (s.frames % s.patch_frames != 0 || s.height % s.patch_height != 0 || s.width % s.patch_width != 0)
        throw UsageError("patches: the patch's size does not divide the image's",
                         "choose a patch whose frames, height and width divide those of the input");
    assert(from.dtype == to.dtype && from.count() == to.count());
    const std::int64_t samples = image.shape[0];
    assert(image.count() == samples * s.tokens() * s.token_width());
    const std::int64_t row = s.patch_width * s.channels * static_cast<std::int64_t>(size_of(from.dtype));
    if (row % 16 == 0 && aligned(from.data, to.data))
        move<Vector<std::uint32_t, 4>, join>(s, samples, row, from, to, stream);
    else if (row % 4 == 0 && size_of(from.dtype) == 4)
        move<std::uint32_t, join>(s, samples, row, from, to, stream);
    else if (size_of(from.dtype) == 2)
        move<std::uint16_t, join>(s, samples, row, from, to, stream);
    else
        move<unsigned char, join>(s, samples, row, from, to, stream);
}

}  // namespace

void extract_patches(const PatchShape& shape, const TensorView& x, const TensorView& tokens, Stream stream) {
    move<false>(shape, x, x, tokens, stream);
}
void join_patches(const PatchShape& shape, const TensorView& tokens, const TensorView& x, Stream stream) {
    move<true>(shape, x, tokens, x, stream);
}

}  // namespace tutti::cuda
