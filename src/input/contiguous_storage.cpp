#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <system_error>
#include <vector>

#include "brought_in_range.hpp"
#include "mapped_samples.hpp"
#include "sample_storage.hpp"
#include "schema.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/open_files.hpp"

namespace tutti {
namespace {

std::string errno_text() {
    return std::generic_category().message(errno);
}

/// Closes itself.
struct OpenFile {
    explicit OpenFile(const std::string& path) : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        const int error = errno;
        if (descriptor < 0)
            throw DataError(path + ": cannot be opened: " + std::generic_category().message(error),
                            error == EMFILE ? too_many_open_files_remedy() : "check its permissions");
    }
    ~OpenFile() { close(descriptor); }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    int descriptor;
};

/// Samples that follow each other, in the file and in memory.
struct Run {
    std::int64_t first, count;
    std::byte* out;
};

class ContiguousStorage final : public SampleStorage {
  public:
    ContiguousStorage(const std::string& path, const DatasetInfo& info, std::uint64_t offset,
                      const FileMemory& memory)
        : path_(path),
          sample_bytes_(info.sample_bytes()),
          offset_(static_cast<std::int64_t>(offset)),
          file_(path) {
        require_whole(info.samples);
        const auto bytes = static_cast<std::uint64_t>(info.samples * sample_bytes_);
        if (bytes <= memory.map)
            mapped_ =
                MappedSamples::map(file_.descriptor, offset, bytes, static_cast<std::size_t>(sample_bytes_));
        if (!mapped_ && bytes > 0 && bytes <= memory.bring_in && is_on_this_host(file_.descriptor)) {
            const std::uint64_t skipped = offset % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
            range_.emplace(file_.descriptor, offset - skipped, bytes + skipped, nullptr);
            range_bytes_ = bytes;
        }
    }

    void bring_in(BringInPatience& patience) const override {
        if (mapped_) mapped_->bring_in(patience);
        if (range_) range_->bring_in(patience);
    }

    void read(std::span<const std::int64_t> indices, std::byte* out) const override {
        if (mapped_ && mapped_->copy(indices, out)) return;
        std::vector<Run> missing;
        for_each_run(indices, [&](std::int64_t first, std::int64_t count, std::size_t begin) {
            const Run run{first, count, out + static_cast<std::int64_t>(begin) * sample_bytes_};
            if (!read_from_memory(run)) missing.push_back(run);
        });
        note_waiting(!missing.empty(), indices.size());
        // All of them are under way before the first is waited for.
        if (missing.size() > 1)
            for (const Run& run : missing) ask_for(run);
        for (const Run& run : missing) read_run(run);
    }

    bool waits_for_disk() const override { return waited_lately_.load(std::memory_order_relaxed) > 0; }

    void announce(std::span<const std::int64_t> indices) const override {
        for_each_run(indices, [this](std::int64_t first, std::int64_t count, std::size_t) {
            ask_for({first, count, nullptr});
        });
    }

    std::uint64_t mapped_bytes() const override { return mapped_ ? mapped_->bytes() : 0; }
    std::uint64_t brought_in_bytes() const override { return mapped_bytes() + range_bytes_; }
    void fetch_as_needed() override {
        mapped_.reset();
        range_.reset();
        range_bytes_ = 0;
    }

  private:
    std::int64_t begin_of(const Run& run) const { return offset_ + run.first * sample_bytes_; }
    std::int64_t bytes_of(const Run& run) const { return run.count * sample_bytes_; }

    /// Returns at once; what is in memory already costs a look at its pages.
    void ask_for(const Run& run) const {
        posix_fadvise(file_.descriptor, begin_of(run), bytes_of(run), POSIX_FADV_WILLNEED);
    }

    /// Threads may overwrite each other's count: it is then a little older or newer.
    void note_waiting(bool waited, std::size_t samples) const {
        constexpr std::int64_t most = 256;  // samples without waiting: the file counts as being in memory
        const std::int64_t before = waited_lately_.load(std::memory_order_relaxed);
        const std::int64_t now =
            waited ? most : std::max<std::int64_t>(before - static_cast<std::int64_t>(samples), 0);
        if (now != before) waited_lately_.store(now, std::memory_order_relaxed);
    }

    /// Whether all of it was in the page cache and is now in `out`.
    bool read_from_memory(const Run& run) const {
        if (!can_ask_.load(std::memory_order_relaxed)) return false;
        const iovec part{run.out, static_cast<std::size_t>(bytes_of(run))};
        const ssize_t got = preadv2(file_.descriptor, &part, 1, begin_of(run), RWF_NOWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR) can_ask_.store(false, std::memory_order_relaxed);
        return got == bytes_of(run);
    }

    void read_run(const Run& run) const {
        std::int64_t done = 0;
        for (const std::int64_t wanted = bytes_of(run); done < wanted;) {
            const ssize_t got = pread(file_.descriptor, run.out + done,
                                      static_cast<std::size_t>(wanted - done), begin_of(run) + done);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) fail_at(run.first + done / sample_bytes_, got < 0 ? errno_text() : "");
            done += got;
        }
    }

    [[noreturn]] void fail_at(std::int64_t sample, const std::string& reason) const {
        const std::string where = path_ + ": sample " + std::to_string(sample);
        if (!reason.empty()) throw DataError(where + " cannot be read: " + reason);
        throw DataError(where + " is beyond the end of the file, which was cut or replaced while in use",
                        schema::pack_again());
    }

    void require_whole(std::int64_t samples) const {
        struct stat status {};
        if (fstat(file_.descriptor, &status) != 0)
            throw DataError(path_ + ": cannot be read: " + errno_text());
        const std::int64_t end = offset_ + samples * sample_bytes_;
        if (status.st_size < end)
            schema::fail(path_, "truncated: the samples end at byte " + std::to_string(end) +
                                    ", but the file has " + std::to_string(status.st_size) + " bytes");
    }

    std::string path_;
    std::int64_t sample_bytes_, offset_;
    OpenFile file_;
    std::unique_ptr<MappedSamples> mapped_;
    std::optional<BroughtInRange> range_;  ///< of a file that is not mapped
    std::uint64_t range_bytes_ = 0;
    mutable std::atomic<std::int64_t> waited_lately_ = 0;
    mutable std::atomic<bool> can_ask_ = true;  ///< the file system knows RWF_NOWAIT
};

}  // namespace

std::unique_ptr<SampleStorage> contiguous_storage(const std::string& path, const DatasetInfo& info,
                                                  std::uint64_t offset, const FileMemory& memory) {
    return std::make_unique<ContiguousStorage>(path, info, offset, memory);
}

}  // namespace tutti
