#include "run_directory_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/base/host_name.hpp"

namespace tutti {
namespace {

bool lock_file(int descriptor) {
    struct flock request {};
    request.l_type = F_WRLCK;
    request.l_whence = SEEK_SET;
    return ::fcntl(descriptor, F_OFD_SETLK, &request) == 0;
}

bool has_no_locks(int error) {
    return error == ENOLCK || error == EOPNOTSUPP || error == ENOTSUP || error == ENOSYS;
}

/// "process 123 on node7", from the lock file.
std::string holder(int descriptor) {
    std::array<char, 512> text{};
    const ssize_t n = ::pread(descriptor, text.data(), text.size() - 1, 0);
    std::istringstream words(std::string(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0));
    std::string host;
    std::string process;
    if (!(words >> host >> process)) return "another process";
    return "process " + process + " on " + host;
}

}  // namespace

RunLock::RunLock(const std::string& directory) {
    const std::string path = directory + "/" + name;
    const auto fail = [&](int error) {
        if (descriptor_ >= 0) ::close(descriptor_);
        throw RunError("cannot write " + path + ": " + std::generic_category().message(error),
                       "give a directory that you can write to with run.dir=…");
    };
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(errno);
    if (!lock_file(descriptor_)) {
        const int error = errno;
        if (error == EAGAIN || error == EACCES) {
            const std::string who = holder(descriptor_);
            ::close(descriptor_);
            throw UsageError(directory + " is in use by " + who,
                             "wait for it, or give this run another run.dir");
        }
        if (!has_no_locks(error)) fail(error);
    }
    const std::string text = host_name() + " " + std::to_string(::getpid()) + "\n";
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
        fail(errno);
}

RunLock::~RunLock() {
    ::close(descriptor_);
}

}  // namespace tutti
