#include "mapped_samples.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "bus_error_guard.hpp"
#include "gather.hpp"

namespace tutti {
namespace {

/// What may end in a bus error.
struct Copy {
    const std::byte* samples;
    std::span<const std::int64_t> indices;
    std::size_t bytes;
    std::byte* out;
    const volatile std::byte* last_page;

    void operator()() const {
        gather(samples, bytes, indices, out);
        // Whoever cuts a file takes its pages away before the rest of the last one becomes zeros. What was
        // copied is therefore read before the page is looked for.
        std::atomic_thread_fence(std::memory_order_acquire);
        static_cast<void>(*last_page);
    }
};

}  // namespace

std::unique_ptr<MappedSamples> MappedSamples::map(int file, std::uint64_t offset, std::uint64_t bytes,
                                                  std::size_t sample_bytes,
                                                  std::function<std::optional<std::int64_t>()> available) {
    if (bytes == 0 || !is_on_this_host(file)) return nullptr;
    std::unique_ptr<MappedSamples> made(
        new MappedSamples(file, offset, bytes, sample_bytes, std::move(available)));
    return made->mapped_ == MAP_FAILED || made->last_page_ == MAP_FAILED ? nullptr : std::move(made);
}

MappedSamples::MappedSamples(int file, std::uint64_t offset, std::uint64_t bytes, std::size_t sample_bytes,
                             std::function<std::optional<std::int64_t>()> available)
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
    range_.emplace(file, offset - skipped, mapped_bytes_, mapped_, std::move(available));

    // A mapping of one page is never part of a large one, which Linux may show beyond the end of a cut file.
    const std::uint64_t last_page_begin = (offset + bytes - 1) / page * page;
    last_page_ = mmap(nullptr, 1, PROT_READ, MAP_SHARED, file, static_cast<off_t>(last_page_begin));
    // Read at every batch, and nothing around it: no read-ahead from there.
    if (last_page_ != MAP_FAILED) madvise(last_page_, 1, MADV_RANDOM);
    first_in_last_page_ =
        last_page_begin <= offset ? 0 : static_cast<std::int64_t>((last_page_begin - offset) / sample_bytes);
}

MappedSamples::~MappedSamples() {
    range_.reset();  // its thread reads what is mapped
    if (mapped_ != MAP_FAILED) munmap(mapped_, mapped_bytes_);
    if (last_page_ != MAP_FAILED) munmap(last_page_, 1);
}

bool MappedSamples::whole() const {
    // A third of fstat's time; nothing uses the position that it moves.
    const off_t size = lseek(file_, 0, SEEK_END);
    return size >= 0 && static_cast<std::uint64_t>(size) >= offset_ + bytes_;
}

bool MappedSamples::copy(std::span<const std::int64_t> indices, std::byte* out) const {
    if (!range_->holds(indices.size() * sample_bytes_)) return false;
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
