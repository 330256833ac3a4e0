#pragma once
// Where an image that is to be packed lies in a larger picture.

#include <span>
#include <string>

#include "image_placement.hpp"
#include "tutti/input/sample_placement.hpp"

namespace tutti {

/// Of its first pixel, in pixels of the picture, to the right and down.
struct PictureOffset {
    double x = 0, y = 0;
};

/// The last two numbers in the name of a file or folder, behind a _ each: (213, 196) of
/// "clips/01-02-2020_0600_213_196". DataError: it does not end so.
PictureOffset offset_in_name(const std::string& path);

/// Of the sample that an image has become.
SamplePlacement placement_in_picture(const PictureOffset& image, const Placement& in_sample);

}  // namespace tutti
