#include "brought_in_range.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "tutti/base/memory_use.hpp"

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

// Asking costs 0.3 ms, in which 8 MiB are copied: files of less memory are not asked about.
constexpr std::uint64_t asked_every = 16 * BroughtInRange::piece_bytes;
constexpr std::uint64_t asked_again_every = std::uint64_t{1} << 30;

constexpr int populate_read = 22;  // madvise(2)'s MADV_POPULATE_READ of Linux 5.14, not in every C library

}  // namespace

bool is_on_this_host(int file) {
    struct statfs status {};
    if (fstatfs(file, &status) != 0) return false;
    return std::ranges::find(local_file_systems, static_cast<std::uint32_t>(status.f_type)) !=
           local_file_systems.end();
}

BroughtInRange::BroughtInRange(int file, std::uint64_t begin, std::uint64_t bytes, void* mapping,
                               std::function<std::optional<std::int64_t>()> available)
    : file_(file),
      begin_(begin),
      bytes_(bytes),
      mapping_(static_cast<std::byte*>(mapping)),
      available_(available ? std::move(available) : [] { return available_bytes(); }) {}

// One thread keeps about 8 MiB under way, which some disks are not busy with, and none while it has to wait
// for a processor; so all that call help. Who finds no piece left waits for those of the others: fetching
// samples one by one meanwhile would hold up all.
void BroughtInRange::bring_in(BringInPatience& patience) const {
    patience.asked_for += bytes_;
    if (asked_for_.load(std::memory_order_relaxed) != patience.asked_for)
        asked_for_.store(patience.asked_for, std::memory_order_relaxed);
    if (done_.load(std::memory_order_acquire)) return;
    std::unique_lock lock(bringing_in_);
    while (!patience.over()) {
        if (claimed_ < bytes_ && claimed_ % asked_every == 0 && patience.asked_for >= asked_every &&
            !has_room(patience.asked_for)) {
            claimed_ = bytes_;
            short_.store(true, std::memory_order_relaxed);
            first_touch_.drop();
            if (under_way_ == 0) note_all_is_in();
        }
        if (claimed_ >= bytes_) {
            piece_is_in_.wait_until(lock, patience.end, [this] { return under_way_ == 0; });
            break;
        }
        const std::uint64_t at = claimed_;
        claimed_ += piece_bytes;
        ++under_way_;
        lock.unlock();
        bring_piece(at);
        lock.lock();
        patience.piece_brought = true;
        if (--under_way_ == 0 && claimed_ >= bytes_) {
            note_all_is_in();
            piece_is_in_.notify_all();
        }
    }
    patience.more_to_bring |= claimed_ < bytes_ || under_way_ > 0;
}

void BroughtInRange::note_all_is_in() const {
    done_.store(true, std::memory_order_release);
    first_touch_.close();
}

// The files had room when they were opened, before the ranks of this host had made their models. Where they
// have none any more, the last pieces would push out the first.
bool BroughtInRange::has_room(std::uint64_t files) const {
    const std::optional<std::int64_t> available = available_();
    return !available || static_cast<std::uint64_t>(*available) >= files;
}

bool BroughtInRange::holds(std::uint64_t bytes) const {
    const std::uint64_t before = taken_.fetch_add(bytes, std::memory_order_relaxed);
    if (before / asked_again_every != (before + bytes) / asked_again_every) {
        const std::uint64_t files = asked_for_.load(std::memory_order_relaxed);
        const bool is_short = files >= asked_every && !has_room(files);
        short_.store(is_short, std::memory_order_relaxed);
        if (is_short) first_touch_.drop();
    }
    return !short_.load(std::memory_order_relaxed);
}

// Unlike read-ahead that is only asked for, this waits for the disk and makes large pages of the cache, from
// which samples are copied about twice as fast as from pages of 4 KiB.
void BroughtInRange::bring_piece(std::uint64_t at) const {
    const std::uint64_t size = std::min(piece_bytes, bytes_ - at);
    void* piece = mapping_ ? mapping_ + at : MAP_FAILED;
    if (!mapping_) {
        piece = mmap(nullptr, size, PROT_READ, MAP_SHARED, file_, static_cast<off_t>(begin_ + at));
        if (piece != MAP_FAILED) madvise(piece, size, MADV_HUGEPAGE);
    }
    if (piece == MAP_FAILED || (madvise(piece, size, populate_read) != 0 && errno == EINVAL))
        ask_for(at, size);
    else if (mapping_)
        first_touch_.add({mapping_ + at, size});
    if (!mapping_ && piece != MAP_FAILED) munmap(piece, size);
}

void BroughtInRange::ask_for(std::uint64_t at, std::uint64_t size) const {
    // Linux brings no more than the device's read-ahead per call, whatever is asked for.
    constexpr std::uint64_t per_call = std::uint64_t{128} << 10;
    for (const std::uint64_t end = at + size; at < end; at += per_call)
        posix_fadvise(file_, static_cast<off_t>(begin_ + at), static_cast<off_t>(per_call),
                      POSIX_FADV_WILLNEED);
}

}  // namespace tutti
