#pragma once
// Image files as pixels.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

/// u8 [height, width, channels], 1 (grey) or 3 (RGB) channels.
struct Image {
    std::int64_t height = 0, width = 0, channels = 0;
    std::vector<std::byte> pixels;
};

/// Why image files cannot be read; empty where they can.
std::string no_image_files();

/// Whether the name ends as that of an image file: .png, .jpg, .jpeg, capitals or not.
bool has_image_name(const std::string& path);

/// A PNG or JPEG file, whichever its first bytes say. channels: 1 or 3; 0: 1 for grey files, else 3.
/// Values are the file's, without a conversion for its gamma or colour profile: 16 bits are cut to the upper
/// 8, palettes and one-bit pictures become 8 bits, transparent pixels are laid over black, CMYK is taken as
/// inverted (Adobe's way). Colour becomes grey by the luma of ITU-R BT.601, as in Pillow. Throws DataError
/// naming the file.
Image read_image_file(const std::string& path, int channels);

}  // namespace tutti
