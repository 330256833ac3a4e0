#include "page_cache.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
    throw DataError(path + ": " + what + ": " + std::generic_category().message(errno));
}

/// A file open for reading.
struct OpenFile {
    explicit OpenFile(const std::string& path) : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (descriptor < 0) fail(path, "cannot be opened");
    }
    ~OpenFile() { close(descriptor); }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    int descriptor;
};

}  // namespace

void evict_from_page_cache(const std::string& path) {
    const OpenFile file(path);
    // On a file system that cannot be written nothing is to be synced, and that is an error there.
    (void)fsync(file.descriptor);
    posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_DONTNEED);
}

double share_in_page_cache(const std::string& path) {
    const OpenFile file(path);
    struct stat status {};
    if (fstat(file.descriptor, &status) != 0) fail(path, "cannot be read");
    if (status.st_size == 0) return 0;
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor, 0);
    if (mapped == MAP_FAILED) fail(path, "cannot be mapped");
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    const bool known = mincore(mapped, bytes, pages.data()) == 0;
    munmap(mapped, bytes);
    if (!known) fail(path, "its pages in memory cannot be counted");
    const auto resident = std::ranges::count_if(pages, [](unsigned char flags) { return (flags & 1U) != 0; });
    return static_cast<double>(resident) / static_cast<double>(pages.size());
}

}  // namespace tutti
