#pragma once
// PNG files, byte by byte.

#include <zlib.h>

#include <cstdint>
#include <string>

#include "idx_files.hpp"

namespace tutti::test {

inline std::string chunk(const std::string& type, const std::string& data) {
    const std::string body = type + data;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    return big_endian({static_cast<std::uint32_t>(data.size())}) + body +
           big_endian({static_cast<std::uint32_t>(sum)});
}

struct PngForm {
    int depth = 8, colour = 0, interlace = 0;  ///< colour 0: grey, 2: RGB, 3: palette, 4 and 6: with alpha
    std::string chunks;                        ///< before the pixels
};

/// A PNG by its specification (ISO/IEC 15948) of filtered rows.
inline std::string png_of_rows(std::uint32_t height, std::uint32_t width, const PngForm& form,
                               const std::string& rows) {
    std::string packed(compressBound(rows.size()), '\0');
    uLongf size = packed.size();
    compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
             rows.size());
    packed.resize(size);
    return "\x89PNG\r\n\x1a\n" +
           chunk("IHDR", big_endian({width, height}) + static_cast<char>(form.depth) +
                             static_cast<char>(form.colour) + std::string(2, '\0') +
                             static_cast<char>(form.interlace)) +
           form.chunks + chunk("IDAT", packed) + chunk("IEND", "");
}

/// Without a filter.
inline std::string png(std::uint32_t height, std::uint32_t width, const PngForm& form,
                       const std::string& pixels) {
    std::string rows;
    const std::size_t row = pixels.size() / height;
    for (std::uint32_t y = 0; y < height; ++y) rows += '\0' + pixels.substr(y * row, row);
    return png_of_rows(height, width, form, rows);
}
inline std::string png(std::uint32_t height, std::uint32_t width, int colour, const std::string& pixels) {
    return png(height, width, PngForm{.colour = colour, .chunks = {}}, pixels);
}

}  // namespace tutti::test
