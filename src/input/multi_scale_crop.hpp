#pragma once
// A cut of one of several sizes at one of several places, brought to one size.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "resample.hpp"
#include "tutti/base/config.hpp"
#include "tutti/base/dtype.hpp"
#include "tutti/base/random.hpp"

namespace tutti {

/// The multi-scale crop of L. Wang et al., "Temporal Segment Networks", 2016, as their code and VideoMAE's
/// have it (GroupMultiScaleCrop with fix_crop, more_fix_crop and max_distort 1). A side of a cut is one of
/// the scales of the image's shorter side, rounded down; one that differs from that of the result by less
/// than 3 pixels is that, where the image has as many (theirs may reach beyond the image there). The places
/// of its height and its width in the list of scales differ by at most one. Immutable, hence safe to share
/// between threads.
class MultiScaleCrop {
  public:
    /// Of images height × width × channels, u8 or f32.
    MultiScaleCrop(const TransformSpec& spec, std::int64_t height, std::int64_t width, std::int64_t channels,
                   DType dtype);

    struct Cut {
        std::int64_t height, width, top, left;
        friend auto operator<=>(const Cut&, const Cut&) = default;
    };
    /// The shape is drawn at `address`, alike from all pairs of scales; the place behind it, alike from 13:
    /// fourths of what is left beside the cut, themselves rounded down.
    Cut random_cut(const RandomStream& random, std::uint64_t address) const;
    /// A square as large as the image allows, for evaluations.
    Cut square(std::int64_t top, std::int64_t left) const { return {base_, base_, top, left}; }
    std::int64_t base() const { return base_; }

    /// Bytes of memory that apply() needs, however they are aligned.
    std::size_t working_bytes() const;
    /// The cut of `image` (one of those above) at the wanted size: as it is where it has that, else bilinear
    /// (resample.hpp).
    void apply(const Cut& cut, const std::byte* image, std::byte* memory, std::byte* to) const;

  private:
    TransformSpec spec_;
    std::int64_t height_, width_, base_;
    std::size_t channels_, pixel_;  ///< pixel_: bytes
    DType dtype_;
    std::vector<std::pair<std::int64_t, std::int64_t>> shapes_;  ///< height, width; a pair as often as drawn
    std::map<std::int64_t, Taps> down_, across_;                 ///< by the side of the cut
};

}  // namespace tutti
