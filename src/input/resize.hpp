#pragma once
// Images of another size.

#include "image_file.hpp"
#include "image_placement.hpp"

namespace tutti {

/// To height × width: each pixel is the mean of the source weighted by a triangle, as wide as the images
/// differ in scale where the result is smaller, so that no pixel is lost (what Pillow's and torchvision's
/// antialiased bilinear resize compute, here rounded once), else of two pixels: bilinear.
Image resize(const Image& image, std::int64_t height, std::int64_t width);

/// The image as it lies in one of the wanted size: scaled, with what is outside cut off and black (0) where
/// there is nothing of it.
Image resize(const Image& image, const Placement& placement);

}  // namespace tutti
