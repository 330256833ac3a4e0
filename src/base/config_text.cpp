#include "config_text.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "tutti/base/config.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/utf8.hpp"

namespace tutti {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t most_bytes = std::size_t{16}
                                   << 20;  // of a config; else /dev/zero would fill the memory
constexpr int patience_ms = 100;

// UTF-32's first: UTF-16's is how it begins.
constexpr std::pair<std::string_view, const char*> marks[] = {{"\xff\xfe\0\0"sv, "UTF-32"},
                                                              {"\0\0\xfe\xff"sv, "UTF-32"},
                                                              {"\xff\xfe"sv, "UTF-16"},
                                                              {"\xfe\xff"sv, "UTF-16"}};

/// Closes a file descriptor.
class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number() const { return number_; }

  private:
    int number_;
};

/// Until there is something to read, or an end; a signal ends it with an error.
void wait_for_bytes(int file, const std::string& path) {
    pollfd one{file, POLLIN, 0};
    while (poll(&one, 1, patience_ms) <= 0)
        if (const int signal = StopSignal::pending(); signal != 0)
            throw RunError(fmt::format("stopped by signal {} while waiting for the config {}", signal, path),
                           "it is a pipe or a terminal that nobody has written to; -c takes a file, too");
}

bool is_first_of_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;
}

}  // namespace

namespace config {

void require_text(std::string_view text, const std::string& source) {
    if (text.starts_with("\x89HDF"))
        throw UsageError(
            source + ": an HDF5 file, not a config",
            "a data set is named with data.train=" + source + ", a run's config is its config.yaml");
    for (const auto& [mark, encoding] : marks)
        if (text.starts_with(mark))
            throw UsageError(
                fmt::format("{}: the text is {}, not UTF-8", source, encoding),
                fmt::format("save it as UTF-8, for example with iconv -f {} -t UTF-8", encoding));
    const std::size_t nul = text.find('\0');
    if (nul == std::string_view::npos) return;
    throw UsageError(
        fmt::format("{}:{}: a NUL byte; YAML is text", source,
                    1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n')),
        "give a YAML file in UTF-8; UTF-16 without a byte order mark becomes one with iconv -f "
        "UTF-16LE -t UTF-8");
}

void require_utf8(std::string_view text, const std::string& source) {
    require_text(text, source);
    const std::string_view right = text.substr(0, utf8_prefix(text));
    if (right.size() == text.size()) return;
    const auto line = std::ranges::count(right, '\n');
    const std::string_view before = right.substr(right.rfind('\n') + 1);  // npos + 1 is 0
    const auto column = std::ranges::count_if(before, is_first_of_character);
    throw UsageError(fmt::format("{}:{}:{}: the byte 0x{:02x} is not UTF-8", source, line + 1, column + 1,
                                 static_cast<unsigned char>(text[right.size()])),
                     "save the file as UTF-8, for example with iconv -f LATIN1 -t UTF-8 OLD > NEW");
}

}  // namespace config

std::string read_config_text(const std::string& path, ConfigText kind) {
    const auto fail = [&] {
        const int error = errno;
        throw UsageError(
            fmt::format("{}: cannot read the config file: {}", path, std::generic_category().message(error)),
            error == EISDIR ? "name the file in it, of a run -c " + shell_word(path + "/config.yaml")
                            : "check the path given with -c");
    };
    // A pipe without a writer would be waited for in open(), which goes on after a signal.
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (file.number() < 0) fail();
    std::string text;
    for (char buffer[65536];;) {
        wait_for_bytes(file.number(), path);
        const ssize_t count = ::read(file.number(), buffer, sizeof buffer);
        if (count == 0) {
            if (kind == ConfigText::given) config::require_utf8(text, path);
            return text;
        }
        if (count < 0 && errno != EINTR && errno != EAGAIN) fail();
        if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
        if (text.size() > most_bytes)
            throw UsageError(fmt::format("{}: more than 16 MiB, which no config has", path),
                             "check the path given with -c");
    }
}

}  // namespace tutti
