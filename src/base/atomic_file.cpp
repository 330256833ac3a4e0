#include "tutti/base/atomic_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tutti/base/host_name.hpp"

namespace tutti::file {
namespace {

constexpr std::string_view ending = ".tmp";

void sync(int descriptor) {
    while (::fsync(descriptor) != 0)
        if (errno != EINTR) throw_errno(errno);
}

/// Makes a rename in `directory` durable. File systems that cannot sync a directory, and directories that may
/// be written but not read, are left alone.
void sync_directory(const std::string& directory) {
    const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
        if (errno == EACCES) return;
        throw_errno(errno);
    }
    int error = 0;
    while (::fsync(descriptor) != 0) {
        error = errno;
        if (error != EINTR) break;
        error = 0;
    }
    ::close(descriptor);
    const bool cannot = error == EINVAL || error == ENOTSUP || error == EBADF || error == ENOSYS;
    if (error != 0 && !cannot) throw_errno(error);
}

}  // namespace

void throw_errno(int error) {
    throw std::system_error(error, std::generic_category());
}

std::string cause(const std::system_error& error) {
    return error.code().message();
}

void write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(descriptor, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw_errno(errno);
        text.remove_prefix(static_cast<std::size_t>(n));
    }
}

std::string content(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw_errno(errno);
    std::string text;
    std::array<char, 1 << 16> piece;
    int error = 0;
    try {
        for (ssize_t n = 1; n != 0;) {
            n = ::read(descriptor, piece.data(), piece.size());
            if (n > 0) text.append(piece.data(), static_cast<std::size_t>(n));
            if (n < 0 && errno != EINTR) {
                error = errno;
                break;
            }
        }
    } catch (...) {
        ::close(descriptor);
        throw;
    }
    ::close(descriptor);
    if (error != 0) throw_errno(error);
    return text;
}

std::string content_or_nothing(const std::string& path) {
    try {
        return content(path);
    } catch (const std::system_error&) {
        return {};
    }
}

std::string temporary_name(const std::string& path) {
    const std::string host = host_name();
    return path + "." + host.substr(0, host.find('.')) + "-" + std::to_string(::getpid()) +
           std::string(ending);
}

std::string_view target_of_temporary(std::string_view name) {
    if (!name.ends_with(ending)) return {};
    name.remove_suffix(ending.size());
    const auto dot = name.rfind('.');
    if (dot == 0 || dot == std::string_view::npos) return {};
    std::string_view number = name.substr(dot + 1);
    if (const auto dash = number.rfind('-'); dash != std::string_view::npos && dash > 0)
        number.remove_prefix(dash + 1);
    const bool is_number =
        !number.empty() && std::ranges::all_of(number, [](unsigned char c) { return std::isdigit(c) != 0; });
    return is_number ? name.substr(0, dot) : std::string_view();
}

void remove_left_over(const std::string& path) {
    namespace fs = std::filesystem;
    const fs::path target(path), folder = target.has_parent_path() ? target.parent_path() : ".";
    const std::string host = host_name(),
                      ours = target.filename().string() + "." + host.substr(0, host.find('.')) + "-";
    std::error_code none;  // what cannot be looked at stays
    for (auto entry = fs::directory_iterator(folder, none); !none && entry != fs::directory_iterator();
         entry.increment(none)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(ours) || target_of_temporary(name) != target.filename().string()) continue;
        const int process = std::atoi(name.c_str() + ours.size());
        std::error_code ignored;
        if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) fs::remove(entry->path(), ignored);
    }
}

Temporary::Temporary(std::string path) : target_(std::move(path)), name_(temporary_name(target_)) {
    descriptor_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) throw_errno(errno);
}

Temporary::~Temporary() {
    ::close(descriptor_);
    if (!committed_) ::unlink(name_.c_str());
}

void Temporary::commit() {
    sync(descriptor_);
    if (::rename(name_.c_str(), target_.c_str()) != 0) throw_errno(errno);
    committed_ = true;
    const std::string directory = std::filesystem::path(target_).parent_path().string();
    sync_directory(directory.empty() ? "." : directory);
}

void replace(const std::string& path, std::string_view content) {
    Temporary temporary(path);
    write_all(temporary.descriptor(), content);
    temporary.commit();
}

}  // namespace tutti::file
