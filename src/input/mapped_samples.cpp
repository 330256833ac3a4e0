#include "mapped_samples.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "bus_error_guard.hpp"

namespace tutti {
namespace {

// Of statfs(2).
constexpr std::array<std::uint32_t, 10> local_file_systems = {
    0xEF53,      // ext2, ext3, ext4
    0x58465342,  // XFS
    0x9123683E,  // Btrfs
    0x2FC12FC1,  // ZFS
    0xF2F52010,  // F2FS
    0x01021994,  // tmpfs
    0x858458F6,  // ramfs
    0x794C7630,  // overlayfs
    0x73717368,  // squashfs
    0xE0F5E1E2,  // EROFS
};

bool is_local(int file) {
    struct statfs status {};
    if (fstatfs(file, &status) != 0) return false;
    return std::ranges::find(local_file_systems, static_cast<std::uint32_t>(status.f_type)) !=
           local_file_systems.end();
}

/// Random places in memory: while one sample is copied, those after it are on their way.
struct Copy {
    const std::byte* samples;
    std::span<const std::int64_t> indices;
    std::size_t bytes;
    std::byte* out;

    const std::byte* at(std::size_t i) const {
        return samples + static_cast<std::size_t>(indices[i]) * bytes;
    }

    void operator()() const {
        constexpr std::size_t line = 64, most = 1024, under_way = 8192;
        const std::size_t ahead = std::clamp<std::size_t>(under_way / bytes, 1, 16);
        const std::size_t lead = std::min(bytes, most);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            if (i + ahead < indices.size()) {
                const std::byte* const next = at(i + ahead);
                for (std::size_t k = 0; k < lead; k += line) __builtin_prefetch(next + k);
            }
            std::memcpy(out + i * bytes, at(i), bytes);
        }
    }
};

}  // namespace

std::unique_ptr<MappedSamples> MappedSamples::map(int file, std::uint64_t offset, std::uint64_t bytes,
                                                  std::size_t sample_bytes) {
    if (bytes == 0 || !is_local(file)) return nullptr;
    std::unique_ptr<MappedSamples> made(new MappedSamples(file, offset, bytes, sample_bytes));
    return made->mapped_ == MAP_FAILED ? nullptr : std::move(made);
}

MappedSamples::MappedSamples(int file, std::uint64_t offset, std::uint64_t bytes, std::size_t sample_bytes)
    : file_(file), offset_(offset), bytes_(bytes), sample_bytes_(sample_bytes) {
    // A mapping begins at a page.
    const std::uint64_t skipped = offset % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    mapped_bytes_ = static_cast<std::size_t>(bytes + skipped);
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset - skipped));
    if (mapped_ != MAP_FAILED) samples_ = static_cast<const std::byte*>(mapped_) + skipped;
}

MappedSamples::~MappedSamples() {
    if (mapped_ != MAP_FAILED) munmap(mapped_, mapped_bytes_);
}

bool MappedSamples::whole() const {
    struct stat status {};
    return fstat(file_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= offset_ + bytes_;
}

bool MappedSamples::is_first_pass(std::size_t samples) const {
    if (asked_for_.load(std::memory_order_relaxed) >= bytes_) return false;
    return asked_for_.fetch_add(samples * sample_bytes_, std::memory_order_relaxed) < bytes_;
}

void MappedSamples::read_ahead() const {
    // Linux brings no more than the device's read-ahead per call, whatever is asked for.
    constexpr std::uint64_t per_batch = std::uint64_t{64} << 20, per_call = std::uint64_t{128} << 10;
    if (asked_for_.load(std::memory_order_relaxed) >= bytes_) return;
    const std::uint64_t begin = asked_for_.fetch_add(per_batch, std::memory_order_relaxed);
    for (std::uint64_t at = begin; at < std::min(begin + per_batch, bytes_); at += per_call)
        posix_fadvise(file_, static_cast<off_t>(offset_ + at), static_cast<off_t>(per_call),
                      POSIX_FADV_WILLNEED);
}

bool MappedSamples::copy(std::span<const std::int64_t> indices, std::byte* out) const {
    // A disk reads a large sample about as fast at any place, and pread does that with fewer interruptions.
    constexpr std::size_t large_sample = std::size_t{64} << 10;
    if (sample_bytes_ >= large_sample && is_first_pass(indices.size())) return false;
    if (sample_bytes_ < large_sample) read_ahead();
    // Behind the end of a file that was cut, its last page reads as zeros: only the size tells. Asked again
    // afterwards, as the file may have been cut during the copy.
    Copy work{samples_, indices, sample_bytes_, out};
    return whole() && without_bus_error(work) && whole();
}

}  // namespace tutti
