#pragma once
// Files that are complete or not there: written under another name in the same directory, synced, renamed.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace tutti::file {

[[noreturn]] inline void throw_errno(int error) {
    throw std::system_error(error, std::generic_category());
}

/// The operating system's words for a failure, without the prefix that what() may have.
inline std::string cause(const std::system_error& error) {
    return error.code().message();
}

/// Writes all of `text`. Throws std::system_error.
inline void write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(descriptor, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw_errno(errno);
        text.remove_prefix(static_cast<std::size_t>(n));
    }
}

/// All that is in the file. Throws std::system_error.
inline std::string content(const std::string& path) {
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

/// Throws std::system_error.
inline void sync(int descriptor) {
    while (::fsync(descriptor) != 0)
        if (errno != EINTR) throw_errno(errno);
}

/// Makes a rename in `directory` durable. File systems that cannot sync a directory are left alone.
inline void sync_directory(const std::string& directory) {
    const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) throw_errno(errno);
    int error = 0;
    while (::fsync(descriptor) != 0) {
        error = errno;
        if (error != EINTR) break;
        error = 0;
    }
    ::close(descriptor);
    if (error != 0 && error != EINVAL && error != ENOTSUP) throw_errno(error);
}

/// The temporary that this process writes before it becomes `path`: PATH.PID.tmp.
inline std::string temporary_name(const std::string& path) {
    return path + "." + std::to_string(::getpid()) + ".tmp";
}

/// Whether a file name has the form that temporary_name() gives.
inline bool is_temporary(std::string_view name) {
    const std::string_view ending = ".tmp";
    if (!name.ends_with(ending)) return false;
    name.remove_suffix(ending.size());
    const auto dot = name.rfind('.');
    if (dot == 0 || dot == std::string_view::npos || dot + 1 == name.size()) return false;
    return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(),
                       [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// A file under its temporary name; removed again unless commit() succeeded. All functions throw
/// std::system_error.
class Temporary {
  public:
    explicit Temporary(std::string path) : target_(std::move(path)), name_(temporary_name(target_)) {
        descriptor_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (descriptor_ < 0) throw_errno(errno);
    }
    ~Temporary() {
        ::close(descriptor_);
        if (!committed_) ::unlink(name_.c_str());
    }
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;

    int descriptor() const { return descriptor_; }
    const std::string& name() const { return name_; }

    /// Syncs, gives the file its name, syncs the directory.
    void commit() {
        sync(descriptor_);
        if (::rename(name_.c_str(), target_.c_str()) != 0) throw_errno(errno);
        committed_ = true;
        const std::string directory = std::filesystem::path(target_).parent_path().string();
        sync_directory(directory.empty() ? "." : directory);
    }

  private:
    std::string target_;
    std::string name_;
    int descriptor_ = -1;
    bool committed_ = false;
};

/// `path` holds `content`, or what it held before. Throws std::system_error.
inline void replace(const std::string& path, std::string_view content) {
    Temporary temporary(path);
    write_all(temporary.descriptor(), content);
    temporary.commit();
}

}  // namespace tutti::file
