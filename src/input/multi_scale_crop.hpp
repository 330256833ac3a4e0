#pragma once
// A cut of one of several sizes at one of several places, brought to one size.

#include <cstdint>
#include <utility>
#include <vector>

#include "scaled_crop.hpp"

namespace tutti {

/// The multi-scale crop of L. Wang et al., "Temporal Segment Networks", 2016, as their code and VideoMAE's
/// have it (GroupMultiScaleCrop with fix_crop, more_fix_crop and max_distort 1). A side of a cut is one of
/// the scales of the image's shorter side, rounded down; one that differs from that of the result by less
/// than 3 pixels is that, where the image has as many (theirs may reach beyond the image there). The places
/// of its height and its width in the list of scales differ by at most one.
class MultiScaleCrop final : public ScaledCrop {
  public:
    MultiScaleCrop(const TransformSpec& spec, std::int64_t height, std::int64_t width, std::int64_t channels,
                   DType dtype);

    /// The shape is drawn at `address`, alike from all pairs of scales; the place behind it, alike from 13:
    /// fourths of what is left beside the cut, themselves rounded down.
    Cut random_cut(const RandomStream& random, std::uint64_t address) const override;
    /// A square as large as the image allows.
    Cut central_cut() const override { return in_the_centre(base_, base_); }

  private:
    std::int64_t base_;
    std::vector<std::pair<std::int64_t, std::int64_t>> shapes_;  ///< height, width; a pair as often as drawn
};

}  // namespace tutti
