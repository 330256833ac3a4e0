#include "idx.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

constexpr std::int64_t images_magic = 0x00000803;
constexpr std::int64_t labels_magic = 0x00000801;
constexpr std::size_t bytes_per_read = std::size_t{4} << 20;
constexpr const char* fetch_again = "download or copy the file again";

std::string hexadecimal(std::int64_t magic) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "0x%08llx", static_cast<unsigned long long>(magic));
    return text.data();
}

void require_magic(const std::string& path, std::int64_t found, IdxReader::Kind kind) {
    const bool images = kind == IdxReader::Kind::images;
    const std::int64_t wanted = images ? images_magic : labels_magic;
    if (found == wanted) return;
    if (found == images_magic || found == labels_magic)
        throw DataError(path + ": holds IDX " + (images ? "labels, where images" : "images, where labels") +
                            " are wanted",
                        "exchange --images and --labels");
    throw DataError(path + ": not an IDX file of " + (images ? "images" : "labels") + ": it begins with " +
                        hexadecimal(found) + " instead of " + hexadecimal(wanted),
                    "give a file like train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz");
}

}  // namespace

IdxReader::IdxReader(const std::string& path, Kind kind) : path_(path) {
    errno = 0;
    file_.reset(gzopen(path.c_str(), "rbe"));
    if (!file_)
        throw DataError(path_ + ": " + std::generic_category().message(errno == 0 ? ENOMEM : errno),
                        "check the path");
    gzbuffer(file_.get(), 256U << 10);
    require_magic(path_, read_big_endian(), kind);
    for (int i = 0; i < (kind == Kind::images ? 3 : 1); ++i) dims_.push_back(read_big_endian());
    if (*std::min_element(dims_.begin(), dims_.end()) < 1)
        throw DataError(path_ + ": holds " + content() + ": nothing to pack", fetch_again);
    require_room_for_values();
}

void IdxReader::require_room_for_values() const {
    std::error_code of_a_pipe;
    const std::uintmax_t size = std::filesystem::file_size(path_, of_a_pipe);
    if (of_a_pipe) return;
    // deflate makes at most 1032 bytes of one (zlib's "Technical Details").
    std::int64_t left =
        static_cast<std::int64_t>(std::min<std::uintmax_t>(size, std::uintmax_t{1} << 52U)) * 1032;
    for (const std::int64_t dim : dims_) left /= dim;
    if (left == 0)
        throw DataError(path_ + ": damaged: its header says " + content() + ", more than a file of " +
                            counted(static_cast<std::int64_t>(size), "byte") + " can hold",
                        fetch_again);
}

std::size_t IdxReader::read_some(std::span<std::byte> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const auto piece = static_cast<unsigned>(std::min(bytes.size() - done, bytes_per_read));
        const int got = gzread(file_.get(), bytes.data() + done, piece);
        if (got > 0) done += static_cast<std::size_t>(got);
        if (got == static_cast<int>(piece)) continue;
        int code = Z_OK;
        const char* text = gzerror(file_.get(), &code);
        // Z_BUF_ERROR: the compressed stream stops in the middle, a truncated file like any other.
        if (code == Z_ERRNO)
            throw DataError(path_ + ": cannot be read: " + std::generic_category().message(errno));
        if (code != Z_OK && code != Z_BUF_ERROR) throw DataError(std::string(text), fetch_again);
        break;
    }
    return done;
}

std::int64_t IdxReader::read_big_endian() {
    std::array<std::byte, 4> bytes{};
    if (read_some(bytes) != bytes.size())
        throw DataError(path_ + ": not an IDX file: it ends within the header", fetch_again);
    std::int64_t value = 0;
    for (const std::byte b : bytes) value = value << 8 | static_cast<std::int64_t>(b);
    return value;
}

std::string IdxReader::content() const {
    if (dims_.size() == 1) return counted(dims_[0], "label");
    return counted(dims_[0], "image") + " of " + std::to_string(dims_[1]) + " x " + std::to_string(dims_[2]);
}

void IdxReader::read(std::span<std::byte> values) {
    const std::size_t got = read_some(values);
    values_read_ += static_cast<std::int64_t>(got);
    if (got == values.size()) return;
    const std::int64_t per_sample = dims_.size() == 1 ? 1 : dims_[1] * dims_[2];
    throw DataError(path_ + ": truncated: its header says " + content() + ", but it ends in sample " +
                        std::to_string(values_read_ / per_sample),
                    fetch_again);
}

void IdxReader::require_end() {
    // For gzip, reading on at the end is also what checks the checksum.
    std::array<std::byte, 1> more{};
    if (read_some(more) != 0)
        throw DataError(path_ + ": there are data after the " + content() + " that its header says",
                        fetch_again);
    int code = Z_OK;
    gzerror(file_.get(), &code);
    if (code == Z_BUF_ERROR)
        throw DataError(path_ + ": truncated: the end of the gzip stream is missing", fetch_again);
}

}  // namespace tutti
