#include "host_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>

#include "parallel.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Whole pages, and at least one: an empty buffer has an address, too.
std::size_t mapped_size(std::size_t bytes) {
    return std::max(page, (bytes + page - 1) / page * page);
}

void unmap(std::byte* data, std::size_t bytes) noexcept {
    ::munmap(data, mapped_size(bytes));
}

/// Null with errno set on failure. What has room for a huge page begins with one: anywhere else, an arena of
/// 3 MiB would most often get none.
std::byte* map(std::size_t size) {
    const std::size_t spare = size >= huge_page ? huge_page - page : 0;
    void* const memory =
        ::mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(memory);
    if (spare == 0) return begin;
    const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(memory) % huge_page) % huge_page;
    if (before > 0) ::munmap(begin, before);
    if (before < spare) ::munmap(begin + before + size, spare - before);
    return begin + before;
}

/// What Linux believes can be had without swapping; the maximum where it does not say.
std::size_t available_memory() {
    std::ifstream meminfo("/proc/meminfo");
    std::string key, rest;
    std::size_t kilobytes = 0;
    while (meminfo >> key >> kilobytes && std::getline(meminfo, rest))
        if (key == "MemAvailable:") return kilobytes * 1024;
    return std::numeric_limits<std::size_t>::max();
}

[[noreturn]] void refuse(std::size_t bytes, const std::string& purpose, const std::string& reason) {
    throw RunError(fmt::format("cannot allocate {:.1f} MiB of host memory for {}: {}",
                               static_cast<double>(bytes) / (1024.0 * 1024.0), purpose, reason),
                   "use a smaller train.batch_size or model, or fewer ranks per node");
}

}  // namespace

Buffer allocate_host(std::size_t bytes, const std::string& purpose) {
    // Linux grants more than there is and kills the process when the pages are touched; only asking first
    // gives a message. Small requests are not worth the look.
    if (bytes >= huge_page) {
        const std::size_t available = available_memory();
        if (bytes > available)
            refuse(bytes, purpose,
                   fmt::format("{:.1f} MiB are free", static_cast<double>(available) / (1024.0 * 1024.0)));
    }
    const std::size_t size = mapped_size(bytes);
    std::byte* const data = map(size);
    if (!data) refuse(bytes, purpose, std::strerror(errno));
    // Advice only: without huge pages everything works, slower.
    if (size >= huge_page) ::madvise(data, size, MADV_HUGEPAGE);
    // Each thread touches first what it will mostly use: its own share, whoever is held up.
    const auto bytes_of_all = static_cast<std::int64_t>(size);
    for_shares(bytes_of_all, bytes_of_all > elements_worth_threads ? omp_get_max_threads() : 1,
               [data](std::int64_t, std::int64_t begin, std::int64_t end) {
                   std::memset(data + begin, 0, static_cast<std::size_t>(end - begin));
               });
    return {data, bytes, unmap};
}

std::byte* Workspace::reserve(std::size_t bytes) {
    if (!holds(bytes)) {
        memory_ = Buffer();
        memory_ = allocate_host(bytes, "the workspace of the CPU kernels");
    }
    return memory_.data();
}

}  // namespace tutti
