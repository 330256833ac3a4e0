#pragma once
// What image_file.cpp and the formats have in common.

#include <string>
#include <vector>

#include "image_file.hpp"

namespace tutti {

/// Throws DataError naming the file.
[[noreturn]] void fail_image(const std::string& path, const std::string& reason);

/// Both give what read_image_file gives, from the file's bytes.
Image decode_png(const std::string& path, const std::vector<unsigned char>& bytes, int channels);
Image decode_jpeg(const std::string& path, const std::vector<unsigned char>& bytes, int channels);

/// Makes pixels of 1 to 4 parts those of `channels`, which is 1 or the number of colours. Of 2 or 4 parts the
/// last is what the others are multiplied with: alpha over black, or the black plate of inverted CMYK. Grey
/// is the luma of ITU-R BT.601 in the whole numbers that Pillow has for it.
void flatten(Image& image, std::int64_t channels);

}  // namespace tutti
