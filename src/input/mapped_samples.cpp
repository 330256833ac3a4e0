#include "mapped_samples.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

constexpr int populate_read = 22;  // madvise(2)'s MADV_POPULATE_READ of Linux 5.14, not in every C library

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
    const volatile std::byte* last_page;

    const std::byte* at(std::size_t i) const {
        return samples + static_cast<std::size_t>(indices[i]) * bytes;
    }

    void fetch(std::size_t i) const {
        constexpr std::size_t line = 64, most = 1024;
        const std::byte* const sample = at(i);
        for (std::size_t k = 0; k < std::min(bytes, most); k += line) __builtin_prefetch(sample + k);
    }

    void operator()() const {
        constexpr std::size_t under_way = 8192;
        const std::size_t ahead = std::min(std::clamp<std::size_t>(under_way / bytes, 1, 16), indices.size());
        for (std::size_t i = 0; i < ahead; ++i) fetch(i);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            if (i + ahead < indices.size()) fetch(i + ahead);
            std::memcpy(out + i * bytes, at(i), bytes);
        }
        // Whoever cuts a file takes its pages away before the rest of the last one becomes zeros. What was
        // copied is therefore read before the page is looked for.
        std::atomic_thread_fence(std::memory_order_acquire);
        static_cast<void>(*last_page);
    }
};

}  // namespace

std::unique_ptr<MappedSamples> MappedSamples::map(int file, std::uint64_t offset, std::uint64_t bytes,
                                                  std::size_t sample_bytes) {
    if (bytes == 0 || !is_local(file)) return nullptr;
    std::unique_ptr<MappedSamples> made(new MappedSamples(file, offset, bytes, sample_bytes));
    return made->mapped_ == MAP_FAILED || made->last_page_ == MAP_FAILED ? nullptr : std::move(made);
}

MappedSamples::MappedSamples(int file, std::uint64_t offset, std::uint64_t bytes, std::size_t sample_bytes)
    : file_(file), offset_(offset), bytes_(bytes), sample_bytes_(sample_bytes), last_page_(MAP_FAILED) {
    // A mapping begins at a page.
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t skipped = offset % page;
    mapped_bytes_ = static_cast<std::size_t>(bytes + skipped);
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset - skipped));
    if (mapped_ == MAP_FAILED) return;
    samples_ = static_cast<const std::byte*>(mapped_) + skipped;
    // What is not in memory comes in large pieces, in pages of 2 MiB where the file system has them.
    madvise(mapped_, mapped_bytes_, MADV_HUGEPAGE);

    // A mapping of one page is never part of a large one, which Linux may show beyond the end of a cut file.
    const std::uint64_t last_page_begin = (offset + bytes - 1) / page * page;
    last_page_ = mmap(nullptr, 1, PROT_READ, MAP_SHARED, file, static_cast<off_t>(last_page_begin));
    // Read at every batch, and nothing around it: no read-ahead from there.
    if (last_page_ != MAP_FAILED) madvise(last_page_, 1, MADV_RANDOM);
    first_in_last_page_ =
        last_page_begin <= offset ? 0 : static_cast<std::int64_t>((last_page_begin - offset) / sample_bytes);
}

MappedSamples::~MappedSamples() {
    if (mapped_ != MAP_FAILED) munmap(mapped_, mapped_bytes_);
    if (last_page_ != MAP_FAILED) munmap(last_page_, 1);
}

bool MappedSamples::whole() const {
    // A third of fstat's time; nothing uses the position that it moves.
    const off_t size = lseek(file_, 0, SEEK_END);
    return size >= 0 && static_cast<std::uint64_t>(size) >= offset_ + bytes_;
}

// One thread keeps about 8 MiB under way, which some disks are not busy with, and none while it has to wait
// for a processor; so all that call help. Who finds no piece left waits for those of the others: fetching
// samples one by one meanwhile would hold up all.
void MappedSamples::bring_in(BringInPatience& patience) const {
    if (all_in_.load(std::memory_order_acquire)) return;
    std::unique_lock lock(bringing_in_);
    while (!patience.over()) {
        if (claimed_ >= mapped_bytes_) {
            piece_is_in_.wait_until(lock, patience.end, [this] { return under_way_ == 0; });
            return;
        }
        const std::uint64_t begin = claimed_;
        claimed_ += piece_bytes;
        ++under_way_;
        lock.unlock();
        bring_piece(begin);
        lock.lock();
        patience.piece_brought = true;
        if (--under_way_ == 0 && claimed_ >= mapped_bytes_) {
            all_in_.store(true, std::memory_order_release);
            piece_is_in_.notify_all();
        }
    }
}

void MappedSamples::bring_piece(std::uint64_t begin) const {
    const std::uint64_t size = std::min(piece_bytes, mapped_bytes_ - begin);
    if (madvise(static_cast<std::byte*>(mapped_) + begin, size, populate_read) != 0 && errno == EINVAL)
        ask_for(begin, size);
}

void MappedSamples::ask_for(std::uint64_t begin, std::uint64_t size) const {
    // Linux brings no more than the device's read-ahead per call, whatever is asked for.
    constexpr std::uint64_t per_call = std::uint64_t{128} << 10;
    for (std::uint64_t at = begin; at < begin + size; at += per_call)
        posix_fadvise(file_, static_cast<off_t>(offset_ + at), static_cast<off_t>(per_call),
                      POSIX_FADV_WILLNEED);
}

bool MappedSamples::copy(std::span<const std::int64_t> indices, std::byte* out) const {
    // Behind the end of a file that was cut, the page in which it ends reads as zeros. As long as the last
    // page is there, that can be only the last page itself, and there the size tells. Both are asked
    // afterwards, as the file may be cut during the copy.
    Copy work{samples_, indices, sample_bytes_, out, static_cast<const std::byte*>(last_page_)};
    if (!without_bus_error(work)) return false;
    bool in_last_page = false;
    for (const std::int64_t index : indices) in_last_page |= index >= first_in_last_page_;
    return !in_last_page || whole();
}

}  // namespace tutti
