#pragma once
// Where an operator that draws random numbers for samples finds them.

#include <cstdint>
#include <span>

namespace tutti {

/// Which numbers a dropout draws. Element e of the sample at positions[n] takes word e % 4 of
/// RandomStream(seed, RandomPlace::dropout, epoch, position).bits(layer·2³² + e / 4); it is dropped when that
/// is below probability·2³². Elements are counted C before H before W, which is PyTorch's order; but those of
/// a sample that `flatten` has made one row as they lie there, H before W before C.
struct DropoutAddress {
    std::int64_t seed = 0, epoch = 0;
    std::span<const std::int64_t> positions;  ///< one per sample; host memory
    std::uint64_t layer = 0;                  ///< below 2¹⁶
};

}  // namespace tutti
