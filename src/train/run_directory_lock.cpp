#include "run_directory_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <system_error>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/base/failed_write.hpp"
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

/// Whether `path` still names what is open. One that cannot be looked at is not somebody else's.
bool names_open(const std::string& path, int descriptor) {
    struct stat open {};
    struct stat named {};
    if (::fstat(descriptor, &open) != 0) return true;
    if (::stat(path.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR;
    return open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

void close_if_open(int& descriptor) {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

}  // namespace

RunLock::RunLock(const std::string& directory) : directory_(directory) {
    try {
        lock(true);
    } catch (...) {
        close_if_open(descriptor_);
        throw;
    }
    directory_descriptor_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void RunLock::lock(bool in_start) {
    const std::string path = directory_ + "/" + name;
    const auto fail = [&](int error) {
        const std::string problem = "cannot write " + path + ": " + std::generic_category().message(error),
                          another = "give a directory that you can write to with run.dir=…";
        if (in_start) refuse_place(error, problem, another);
        throw RunError(problem, another);
    };
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(errno);
    if (!lock_file(descriptor_)) {
        const int error = errno;
        if (error == EAGAIN || error == EACCES)
            throw UsageError(directory_ + " is in use by " + holder(descriptor_),
                             "wait for it, or give this run another run.dir");
        if (!has_no_locks(error)) fail(error);
    }
    const std::string text = host_name() + " " + std::to_string(::getpid()) + "\n";
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
        fail(errno);
}

void RunLock::require_directory() const {
    if (directory_descriptor_ >= 0 && !names_open(directory_, directory_descriptor_))
        throw RunError(
            "the run directory " + directory_ + " was removed, moved or replaced while this run used it",
            remedy);
}

void RunLock::require() {
    require_directory();
    if (descriptor_ >= 0 && names_open(directory_ + "/" + name, descriptor_)) return;
    close_if_open(descriptor_);
    try {
        lock(false);
    } catch (const Error& error) {
        close_if_open(descriptor_);
        require_directory();  // it may have been in removal
        if (error.code() != ExitCode::usage) throw;
        throw RunError(std::string(error.what()) + " since this run's lock was removed from it", remedy);
    }
}

RunLock::~RunLock() {
    close_if_open(descriptor_);
    close_if_open(directory_descriptor_);
}

}  // namespace tutti
