#pragma once
// A cut of any size and shape in a range, brought to one size.

#include "scaled_crop.hpp"

namespace tutti {

/// torchvision.transforms.RandomResizedCrop (the crop of C. Szegedy et al., "Going Deeper with Convolutions",
/// 2015): a part of spec.scale of the image's area whose width over height is in spec.ratio, drawn until one
/// of ten fits into the image; else the largest in the centre whose shape is in that range.
class RandomResizedCrop final : public ScaledCrop {
  public:
    RandomResizedCrop(const TransformSpec& spec, std::int64_t height, std::int64_t width,
                      std::int64_t channels, DType dtype);

    /// Four numbers per attempt: area, shape, top, left.
    Cut random_cut(const RandomStream& random, std::uint64_t address) const override;
    /// Of the largest part in the centre that has the shape of the result, spec.center of each side: what
    /// Resize(256), CenterCrop(224) take for 0.875.
    Cut central_cut() const override { return central_; }

  private:
    Cut fallback() const;
    Cut evaluated() const;

    Cut fallback_, central_;
};

}  // namespace tutti
