#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

#include "image_formats.hpp"

namespace tutti {
namespace {

/// libpng leaves by longjmp, so nothing with a destructor may be made between setjmp and its calls. No call
/// for gamma is made here: values are what the file has, whatever its gAMA, sRGB and iCCP say.
struct PngReader {
    explicit PngReader(const std::vector<unsigned char>& file)
        : next(file.data()), left(file.size()), size(file.size()) {
        png =
            png_create_read_struct(PNG_LIBPNG_VER_STRING, this, failed, [](png_structp, png_const_charp) {});
        info = png == nullptr ? nullptr : png_create_info_struct(png);
        if (info != nullptr) return;
        png_destroy_read_struct(&png, nullptr, nullptr);
        throw std::bad_alloc();
    }
    ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;

    static void failed(png_structp png, png_const_charp reason) {
        auto* const reader = static_cast<PngReader*>(png_get_error_ptr(png));
        std::snprintf(reader->message.data(), reader->message.size(), "%s", reason);
        std::longjmp(reader->place, 1);
    }
    static void take(png_structp png, png_bytep to, std::size_t count) {
        auto* const reader = static_cast<PngReader*>(png_get_io_ptr(png));
        if (count > reader->left) png_error(png, "the file is cut off");
        std::memcpy(to, reader->next, count);
        reader->next += count;
        reader->left -= count;
    }

    /// False with a message. Afterwards rows of `parts` bytes for each pixel are to be read.
    bool header(int channels) {
        if (setjmp(place) != 0) return false;
        png_set_read_fn(png, this, take);
        png_read_info(png, info);
        height = png_get_image_height(png, info);
        width = png_get_image_width(png, info);
        // Deflate packs at most 1032 : 1. What says to be larger must not ask for the memory.
        if ((png_get_rowbytes(png, info) + 1) / 1032 * height > size)
            png_error(png, "the file is too short for so many pixels");
        colour = (png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) != 0;
        png_set_expand(png);    // palettes to RGB, 1, 2 and 4 bits to 8, a transparent colour to alpha
        png_set_strip_16(png);  // the upper 8 bits
        if (channels == 3 && !colour) png_set_gray_to_rgb(png);
        passes = png_set_interlace_handling(png);
        png_read_update_info(png, info);
        parts = png_get_channels(png, info);
        return true;
    }
    bool rows(unsigned char* pixels) {
        if (setjmp(place) != 0) return false;
        const std::size_t row = png_get_rowbytes(png, info);
        for (int pass = 0; pass < passes; ++pass)
            for (std::size_t y = 0; y < height; ++y) png_read_row(png, pixels + y * row, nullptr);
        return true;
    }

    png_structp png = nullptr;
    png_infop info = nullptr;
    const unsigned char* next;
    std::size_t left, size;
    std::size_t height = 0, width = 0;
    bool colour = false;
    int passes = 1, parts = 0;
    std::jmp_buf place{};
    std::array<char, 256> message{};
};

}  // namespace

Image decode_png(const std::string& path, const std::vector<unsigned char>& bytes, int channels) {
    PngReader reader(bytes);
    if (!reader.header(channels)) fail_image(path, reader.message.data());
    Image image{
        static_cast<std::int64_t>(reader.height), static_cast<std::int64_t>(reader.width), reader.parts, {}};
    image.pixels.resize(static_cast<std::size_t>(image.height * image.width * image.channels));
    if (!reader.rows(reinterpret_cast<unsigned char*>(image.pixels.data())))
        fail_image(path, reader.message.data());
    flatten(image, channels != 0 ? channels : reader.colour ? 3 : 1);
    return image;
}

}  // namespace tutti
