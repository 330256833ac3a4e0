#pragma once
// IDX files for tests.

#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace tutti::test {

inline std::string big_endian(std::initializer_list<std::uint32_t> words) {
    std::string bytes;
    for (const std::uint32_t word : words)
        for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift & 0xFF);
    return bytes;
}

/// Pixel k of all is k mod 256.
inline std::string idx_images(std::uint32_t count, std::uint32_t height, std::uint32_t width) {
    std::string bytes = big_endian({0x803, count, height, width});
    for (std::uint32_t k = 0; k < count * height * width; ++k) bytes += static_cast<char>(k);
    return bytes;
}

/// Label i is i mod `classes`.
inline std::string idx_labels(std::uint32_t count, std::uint32_t classes) {
    std::string bytes = big_endian({0x801, count});
    for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % classes);
    return bytes;
}

inline void write_plain(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

inline void write_gzip(const std::string& path, const std::string& bytes) {
    const gzFile file = gzopen(path.c_str(), "wb");
    if (file == nullptr || gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) <= 0 ||
        gzclose(file) != Z_OK)
        throw std::runtime_error("cannot write " + path);
}

}  // namespace tutti::test
