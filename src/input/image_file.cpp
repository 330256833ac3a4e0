#include "image_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "image_formats.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr std::array<unsigned char, 8> png_signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

std::vector<unsigned char> read_bytes(const std::string& path) {
    // Opening a pipe would wait for whoever writes to it.
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (!error && !std::filesystem::is_regular_file(status)) fail_image(path, "it is no regular file");
    std::ifstream file(path, std::ios::binary);
    if (!file) fail_image(path, std::generic_category().message(errno));
    constexpr std::size_t piece = std::size_t{256} << 10;
    std::vector<unsigned char> bytes;
    for (std::size_t end = 0; file; bytes.resize(end)) {
        bytes.resize(end + piece);
        file.read(reinterpret_cast<char*>(bytes.data() + end), piece);
        end += static_cast<std::size_t>(file.gcount());
    }
    if (file.bad()) fail_image(path, std::generic_category().message(errno));
    return bytes;
}

}  // namespace

[[noreturn]] void fail_image(const std::string& path, const std::string& reason) {
    throw DataError(path + ": cannot be read as an image: " + reason,
                    "replace or remove the file, or leave such files out with --skip-errors");
}

void flatten(Image& image, std::int64_t channels) {
    const std::int64_t parts = image.channels, colours = parts % 2 == 0 ? parts - 1 : parts;
    if (parts == channels) return;
    std::byte* to = image.pixels.data();
    const std::byte* from = to;
    for (std::int64_t left = image.height * image.width; left > 0; --left, from += parts, to += channels) {
        std::array<int, 3> value{};
        for (std::int64_t c = 0; c < colours; ++c)
            value[static_cast<std::size_t>(c)] = static_cast<int>(from[c]);
        if (colours < parts)
            for (int& v : value) v = (v * static_cast<int>(from[colours]) + 127) / 255;
        if (channels < colours)
            value[0] = (value[0] * 19595 + value[1] * 38470 + value[2] * 7471 + 0x8000) >> 16;
        for (std::int64_t c = 0; c < channels; ++c)
            to[c] = static_cast<std::byte>(value[static_cast<std::size_t>(c)]);
    }
    image.pixels.resize(static_cast<std::size_t>(image.height * image.width * channels));
    image.channels = channels;
}

std::string no_image_files() {
    return {};
}

Image read_image_file(const std::string& path, int channels) {
    const std::vector<unsigned char> bytes = read_bytes(path);
    if (bytes.size() > png_signature.size() &&
        std::equal(png_signature.begin(), png_signature.end(), bytes.begin()))
        return decode_png(path, bytes, channels);
    if (bytes.size() > 3 && bytes[0] == 0xff && bytes[1] == 0xd8) return decode_jpeg(path, bytes, channels);
    fail_image(path, bytes.empty() ? "the file is empty" : "neither PNG nor JPEG");
}

}  // namespace tutti
