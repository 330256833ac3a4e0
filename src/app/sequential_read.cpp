#include "sequential_read.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tutti/base/error.hpp"

namespace tutti {

SequentialRead::SequentialRead(std::vector<std::string> paths, std::size_t block)
    : paths_(std::move(paths)), block_(block) {}

std::uint64_t SequentialRead::read(std::uint64_t bytes) {
    std::uint64_t done = 0;
    while (done < bytes) {
        const std::uint64_t before = done;
        for (const std::string& path : paths_)
            if (done < bytes) done += read_file(path, bytes - done);
        if (done == before) throw DataError(paths_.front() + ": there is nothing in it to read");
    }
    return done;
}

std::uint64_t SequentialRead::read_file(const std::string& path, std::uint64_t bytes) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::uint64_t done = 0;
    ssize_t got = file < 0 ? -1 : 1;
    while (got > 0 && done < bytes) {
        got = ::read(file, block_.data(), block_.size());
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
