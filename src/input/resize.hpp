#pragma once
// Images of another size.

#include "image_file.hpp"

namespace tutti {

/// To height × width: each pixel is the mean of the source weighted by a triangle, as wide as the images
/// differ in scale where the result is smaller, so that no pixel is lost (what Pillow's and torchvision's
/// antialiased bilinear resize compute, here rounded once), else of two pixels: bilinear.
Image resize(const Image& image, std::int64_t height, std::int64_t width);

/// The largest part in the centre that has the wanted shape, in that size: scaled until both sides are large
/// enough, then cut.
Image resize_and_crop(const Image& image, std::int64_t height, std::int64_t width);

}  // namespace tutti
