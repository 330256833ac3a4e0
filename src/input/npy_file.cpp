#include "npy_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little, "values are taken as they are in the file");

constexpr std::string_view magic = "\x93NUMPY";
/// NumPy itself refuses more than 10,000 characters.
constexpr std::int64_t longest_header = std::int64_t{1} << 16;
constexpr std::size_t npy_bytes_per_read = std::size_t{1} << 20;

[[noreturn]] void fail(const std::string& path, const std::string& problem, const std::string& remedy) {
    throw DataError(path + ": " + problem, remedy);
}

constexpr const char* write_again = "write it again with numpy.save";

/// The header of a file: a literal of a dict in Python, of which only what NumPy writes is understood.
class HeaderText {
  public:
    explicit HeaderText(std::string_view text) : text_(text) {}

    /// Whether the next character, after blanks, is this one, which is then passed.
    bool take(char wanted) {
        while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
        if (text_.empty() || text_.front() != wanted) return false;
        text_.remove_prefix(1);
        return true;
    }
    bool take(std::string_view word) {
        if (!take(word.front())) return false;
        if (!text_.starts_with(word.substr(1))) return false;
        text_.remove_prefix(word.size() - 1);
        return true;
    }
    std::optional<std::string> string() {
        const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
        const std::size_t end = text_.find(quote);
        if (quote == '\0' || end == std::string_view::npos) return std::nullopt;
        std::string found(text_.substr(0, end));
        text_.remove_prefix(end + 1);
        return found;
    }
    std::optional<bool> boolean() {
        if (take("True")) return true;
        if (take("False")) return false;
        return std::nullopt;
    }
    std::optional<std::vector<std::int64_t>> tuple() {
        std::vector<std::int64_t> values;
        if (!take('(')) return std::nullopt;
        while (!take(')')) {
            while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
            std::int64_t value = 0;
            const auto [rest, status] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
            if (status != std::errc() || value < 0) return std::nullopt;
            text_.remove_prefix(static_cast<std::size_t>(rest - text_.data()));
            values.push_back(value);
            if (take(')')) break;
            if (!take(',')) return std::nullopt;
        }
        return values;
    }

  private:
    std::string_view text_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::string text;
    for (const std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
    return "[" + text + "]";
}

template <class Value>
float as_float(const std::byte* from) {
    Value value;
    std::memcpy(&value, from, sizeof value);
    if constexpr (sizeof value == 2) return half_to_float(value);
    return static_cast<float>(value);
}

template <class Value>
void convert(const std::byte* from, std::int64_t count, float* to) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = as_float<Value>(from + i * std::int64_t{sizeof(Value)});
}

}  // namespace

float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t exponent = half >> 10 & 0x1fU, fraction = half & 0x3ffU;
    if (exponent == 0) {
        const float value = std::ldexp(static_cast<float>(fraction), -24);
        return sign != 0 ? -value : value;
    }
    const std::uint32_t wide = exponent == 0x1f ? 0xffU : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

NpyFile::NpyFile(const std::string& path, const MatrixMeaning& meaning) : path_(path), meaning_(meaning) {
    // Without O_NONBLOCK opening a pipe would wait for whoever writes to it.
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ < 0) fail(path, std::generic_category().message(errno), meaning.missing);
    try {
        read_header();
    } catch (...) {
        close(file_);
        throw;
    }
}

NpyFile::~NpyFile() {
    close(file_);
}

std::string NpyFile::as_floats() const {
    return fmt::format("write it again: numpy.save(path, {}.astype('float32'))", meaning_.values);
}

std::int64_t NpyFile::value_bytes() const {
    return type_ == Type::f16 ? 2 : type_ == Type::f32 ? 4 : 8;
}

void NpyFile::read_header() {
    struct stat status {};
    if (fstat(file_, &status) != 0) fail(path_, std::generic_category().message(errno), "check the path");
    if (!S_ISREG(status.st_mode)) fail(path_, "it is no regular file", "name a .npy file");
    const auto size = static_cast<std::int64_t>(status.st_size);
    std::array<std::byte, 12> start{};
    const auto length_at = static_cast<std::int64_t>(magic.size()) + 2;
    if (size < length_at + 4) fail(path_, "it is too short for a .npy file", write_again);
    read_bytes(0, start.data(), start.size());
    if (std::memcmp(start.data(), magic.data(), magic.size()) != 0)
        fail(path_, "it is no .npy file", "give files that numpy.save wrote");
    const auto version = static_cast<int>(start[magic.size()]);
    if (version < 1 || version > 3)
        fail(path_, "its .npy format has the version " + std::to_string(version) + ", not 1, 2 or 3",
             write_again);
    const std::int64_t length_bytes = version == 1 ? 2 : 4;
    std::int64_t length = 0;
    for (std::int64_t i = 0; i < length_bytes; ++i)
        length |= static_cast<std::int64_t>(start[static_cast<std::size_t>(length_at + i)]) << 8 * i;
    begin_ = length_at + length_bytes + length;
    if (length > longest_header || begin_ > size) fail(path_, "its header is cut off", write_again);
    std::string text(static_cast<std::size_t>(length), '\0');
    read_bytes(begin_ - length, reinterpret_cast<std::byte*>(text.data()), text.size());
    take_header(text);
    std::int64_t bytes = value_bytes();
    if (__builtin_mul_overflow(bytes, rows_, &bytes) || __builtin_mul_overflow(bytes, columns_, &bytes) ||
        bytes > size - begin_)
        fail(path_, "it is cut off: its header says " + shape_text({rows_, columns_}) + " values",
             "copy it again, or " + std::string(write_again));
}

void NpyFile::take_header(const std::string& text) {
    HeaderText header(text);
    std::optional<std::string> type;
    std::optional<bool> columns_first;
    std::optional<std::vector<std::int64_t>> shape;
    bool understood = header.take('{');
    while (understood && !header.take('}')) {
        const std::optional<std::string> key = header.string();
        understood = key && header.take(':');
        if (!understood) break;
        if (*key == "descr")
            understood = (type = header.string()).has_value();
        else if (*key == "fortran_order")
            understood = (columns_first = header.boolean()).has_value();
        else
            understood = *key == "shape" && (shape = header.tuple()).has_value();
        if (understood && header.take('}')) break;
        understood = understood && header.take(',');
    }
    if (!understood || !type || !columns_first || !shape)
        fail(path_, "its header is not that of an array of numbers", as_floats());
    if (*type != "<f2" && *type != "<f4" && *type != "<f8")
        fail(path_, "its values have the type " + *type + ", not <f2, <f4 or <f8", as_floats());
    type_ = *type == "<f2" ? Type::f16 : *type == "<f4" ? Type::f32 : Type::f64;
    if (shape->size() != 2 || (*shape)[1] < 1)
        fail(path_, "it has the shape " + shape_text(*shape) + ", not " + meaning_.shape,
             std::string("write it again with a row for each ") + meaning_.row);
    rows_ = (*shape)[0];
    columns_ = (*shape)[1];
    if (*columns_first && rows_ > 1 && columns_ > 1)
        fail(path_, "its values are in Fortran's order",
             fmt::format("write it again: numpy.save(path, numpy.ascontiguousarray({}))", meaning_.values));
}

void NpyFile::read_bytes(std::int64_t at, std::byte* to, std::size_t count) const {
    for (std::size_t done = 0; done < count;) {
        const ssize_t got =
            pread(file_, to + done, count - done, static_cast<off_t>(at) + static_cast<off_t>(done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            fail(path_, "cannot be read: " + std::generic_category().message(errno), "check the disk");
        if (got == 0) fail(path_, "it became shorter while it was read", "pack it again");
        done += static_cast<std::size_t>(got);
    }
}

void NpyFile::read(std::int64_t first, std::int64_t count, float* to, std::int64_t stride) const {
    const std::int64_t row = columns_ * value_bytes();
    const std::int64_t piece = std::max<std::int64_t>(1, static_cast<std::int64_t>(npy_bytes_per_read) / row);
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(piece, count) * row));
    for (std::int64_t done = 0; done < count; done += piece) {
        const std::int64_t rows = std::min(piece, count - done);
        read_bytes(begin_ + (first + done) * row, bytes.data(), static_cast<std::size_t>(rows * row));
        for (std::int64_t r = 0; r < rows; ++r) {
            const std::byte* const from = bytes.data() + r * row;
            float* const out = to + (done + r) * stride;
            if (type_ == Type::f16)
                convert<std::uint16_t>(from, columns_, out);
            else if (type_ == Type::f32)
                std::memcpy(out, from, static_cast<std::size_t>(row));
            else
                convert<double>(from, columns_, out);
        }
    }
}

}  // namespace tutti
