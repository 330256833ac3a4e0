#include "sequential_read.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr std::size_t page = 4096;

/// 0 of one that is not there: opening it says so.
std::uint64_t size_of(const std::string& path) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    return error ? 0 : size;
}

}  // namespace

SequentialRead::SequentialRead(std::vector<std::string> paths, std::size_t block)
    : paths_(std::move(paths)), memory_(block + page) {
    void* begin = memory_.data();
    std::size_t space = memory_.size();
    block_ = {static_cast<std::byte*>(std::align(page, block, begin, space)), block};
}

std::uint64_t SequentialRead::all_bytes() const {
    std::uint64_t all = 0;
    for (const std::string& path : paths_) all += size_of(path);
    return all;
}

void SequentialRead::read(std::uint64_t bytes, std::uint64_t skip) {
    std::uint64_t done = 0;
    skip %= std::max<std::uint64_t>(all_bytes(), 1);
    while (done < bytes) {
        const std::uint64_t before = done;
        for (const std::string& path : paths_)
            if (done < bytes) done += read_file(path, bytes - done, skip);
        if (done == before) throw DataError(paths_.front() + ": there is nothing in it to read");
    }
}

std::uint64_t SequentialRead::read_file(const std::string& path, std::uint64_t bytes, std::uint64_t& skip) {
    if (const std::uint64_t size = size_of(path); skip > 0 && skip >= size) {
        skip -= size;
        return 0;
    }
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) lseek(file, static_cast<off_t>(std::exchange(skip, 0)), SEEK_SET);
    std::uint64_t done = 0;
    ssize_t got = file < 0 ? -1 : 1;
    while (got > 0 && done < bytes) {
        got = ::read(file, block_.data(), std::min<std::uint64_t>(block_.size(), bytes - done));
        if (got < 0 && errno == EINTR)
            got = 1;  // nothing was read, and that is not the end
        else if (got > 0)
            done += static_cast<std::uint64_t>(got);
    }
    const int error = errno;
    if (file >= 0) close(file);
    if (got < 0) throw DataError(path + ": cannot be read: " + std::generic_category().message(error));
    return done;
}

}  // namespace tutti
