#include "image_file.hpp"

#include <jpeglib.h>
#include <png.h>

#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
    throw DataError(path + ": cannot be read as an image: " + reason,
                    "replace or remove the file, or leave such files out with --skip-errors");
}

std::vector<unsigned char> read_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(path, std::generic_category().message(errno));
    std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (file.bad()) fail(path, std::generic_category().message(errno));
    return bytes;
}

/// libpng's simplified interface keeps what it allocated until this.
struct PngReader {
    PngReader() {
        std::memset(&image, 0, sizeof image);
        image.version = PNG_IMAGE_VERSION;
    }
    ~PngReader() { png_image_free(&image); }
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;
    png_image image;
};

Image read_png(const std::string& path, const std::vector<unsigned char>& bytes, int channels) {
    PngReader reader;
    png_image& png = reader.image;
    if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) fail(path, png.message);
    if (channels == 0) channels = (png.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
    png.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    Image image{png.height, png.width, channels, {}};
    image.pixels.resize(PNG_IMAGE_SIZE(png));
    const png_color black{0, 0, 0};
    if (!png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr)) fail(path, png.message);
    return image;
}

/// libjpeg leaves by longjmp, so nothing with a destructor may be made between setjmp and its calls.
struct JpegReader {
    JpegReader() {
        decoder.err = jpeg_std_error(&errors);
        errors.error_exit = [](j_common_ptr common) {
            auto* const reader = static_cast<JpegReader*>(common->client_data);
            errors_of(common).format_message(common, reader->message.data());
            std::longjmp(reader->place, 1);
        };
        // What libjpeg calls a warning is damage: a file that is cut off would be filled with grey.
        errors.emit_message = [](j_common_ptr common, int level) {
            if (level < 0) common->err->error_exit(common);
        };
        jpeg_create_decompress(&decoder);
        decoder.client_data = this;
    }
    ~JpegReader() { jpeg_destroy_decompress(&decoder); }
    JpegReader(const JpegReader&) = delete;
    JpegReader& operator=(const JpegReader&) = delete;
    static jpeg_error_mgr& errors_of(j_common_ptr common) { return *common->err; }

    /// False with a message. Makes room in `image` before the first row.
    bool header(const std::vector<unsigned char>& bytes, int channels) {
        if (setjmp(place) != 0) return false;
        jpeg_mem_src(&decoder, bytes.data(), bytes.size());
        jpeg_read_header(&decoder, TRUE);
        const bool grey = channels == 1 || (channels == 0 && decoder.num_components == 1);
        decoder.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
        jpeg_start_decompress(&decoder);
        return true;
    }
    bool rows(Image& image) {
        if (setjmp(place) != 0) return false;
        while (decoder.output_scanline < decoder.output_height) {
            auto* row = reinterpret_cast<JSAMPROW>(image.pixels.data()) +
                        static_cast<std::size_t>(decoder.output_scanline) * decoder.output_width *
                            static_cast<std::size_t>(decoder.output_components);
            jpeg_read_scanlines(&decoder, &row, 1);
        }
        jpeg_finish_decompress(&decoder);
        return true;
    }

    jpeg_decompress_struct decoder{};
    jpeg_error_mgr errors{};
    std::jmp_buf place{};
    std::array<char, JMSG_LENGTH_MAX> message{};
};

Image read_jpeg(const std::string& path, const std::vector<unsigned char>& bytes, int channels) {
    JpegReader reader;
    if (!reader.header(bytes, channels)) fail(path, reader.message.data());
    Image image{
        reader.decoder.output_height, reader.decoder.output_width, reader.decoder.output_components, {}};
    image.pixels.resize(static_cast<std::size_t>(image.height * image.width * image.channels));
    if (!reader.rows(image)) fail(path, reader.message.data());
    return image;
}

}  // namespace

std::string no_image_files() {
    return {};
}

Image read_image_file(const std::string& path, int channels) {
    const std::vector<unsigned char> bytes = read_bytes(path);
    if (bytes.size() > 8 && png_sig_cmp(bytes.data(), 0, 8) == 0) return read_png(path, bytes, channels);
    if (bytes.size() > 3 && bytes[0] == 0xff && bytes[1] == 0xd8) return read_jpeg(path, bytes, channels);
    fail(path, bytes.empty() ? "the file is empty" : "neither PNG nor JPEG");
}

}  // namespace tutti
