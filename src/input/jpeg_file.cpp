// jpeglib.h needs <cstdio> before it.
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

#include <array>
#include <csetjmp>

#include "image_formats.hpp"

namespace tutti {
namespace {

/// libjpeg leaves by longjmp, so nothing with a destructor may be made between setjmp and its calls.
struct JpegReader {
    JpegReader() {
        decoder.err = jpeg_std_error(&errors);
        errors.error_exit = [](j_common_ptr common) {
            auto* const reader = static_cast<JpegReader*>(common->client_data);
            errors_of(common).format_message(common, reader->message.data());
            std::longjmp(reader->place, 1);
        };
        // A file that is cut off would be filled with grey. Other warnings leave the picture as it is, stray
        // bytes before a marker for one, which some cameras write.
        errors.emit_message = [](j_common_ptr common, int level) {
            const int code = common->err->msg_code;
            if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER))
                common->err->error_exit(common);
        };
        jpeg_create_decompress(&decoder);
        decoder.client_data = this;
    }
    ~JpegReader() { jpeg_destroy_decompress(&decoder); }
    JpegReader(const JpegReader&) = delete;
    JpegReader& operator=(const JpegReader&) = delete;
    static jpeg_error_mgr& errors_of(j_common_ptr common) { return *common->err; }

    /// False with a message. Afterwards rows of grey, RGB or CMYK are to be read.
    bool header(const std::vector<unsigned char>& bytes, int channels) {
        if (setjmp(place) != 0) return false;
        jpeg_mem_src(&decoder, bytes.data(), bytes.size());
        jpeg_read_header(&decoder, TRUE);
        // A block of 64 values takes at least a bit, of pixels 16 times as many where the channels share the
        // sampling oddly. What says to be larger must not ask for the memory.
        if (decoder.arith_code == FALSE &&
            std::size_t{decoder.image_width} * decoder.image_height / (64 * 16 * 8) > bytes.size()) {
            std::snprintf(message.data(), message.size(), "the file is too short for so many pixels");
            return false;
        }
        const J_COLOR_SPACE file = decoder.jpeg_color_space;
        if (file == JCS_CMYK || file == JCS_YCCK)
            decoder.out_color_space = JCS_CMYK;
        else
            decoder.out_color_space = file == JCS_GRAYSCALE && channels != 3 ? JCS_GRAYSCALE : JCS_RGB;
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

}  // namespace

Image decode_jpeg(const std::string& path, const std::vector<unsigned char>& bytes, int channels) {
    JpegReader reader;
    if (!reader.header(bytes, channels)) fail_image(path, reader.message.data());
    Image image{
        reader.decoder.output_height, reader.decoder.output_width, reader.decoder.output_components, {}};
    image.pixels.resize(static_cast<std::size_t>(image.height * image.width * image.channels));
    if (!reader.rows(image)) fail_image(path, reader.message.data());
    // Four parts are CMYK, which files have inverted, as Adobe's programs write it: red is cyan times black.
    flatten(image, channels != 0 ? channels : image.channels == 1 ? 1 : 3);
    return image;
}

}  // namespace tutti
