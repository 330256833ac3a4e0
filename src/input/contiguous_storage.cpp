#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "sample_storage.hpp"
#include "schema.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

std::string errno_text() {
    return std::generic_category().message(errno);
}

class ContiguousStorage final : public SampleStorage {
  public:
    ContiguousStorage(const std::string& path, const DatasetInfo& info, std::uint64_t offset)
        : path_(path), sample_bytes_(info.sample_bytes()), offset_(static_cast<std::int64_t>(offset)) {
        file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (file_ < 0) throw DataError(path_ + ": cannot be opened: " + errno_text());
        try {
            require_whole(info.samples);
        } catch (...) {
            close(file_);
            throw;
        }
    }
    ~ContiguousStorage() override { close(file_); }
    ContiguousStorage(const ContiguousStorage&) = delete;
    ContiguousStorage& operator=(const ContiguousStorage&) = delete;

    void read_run(std::int64_t first, std::int64_t count, std::byte* out) const override {
        const std::int64_t begin = first * sample_bytes_;
        std::int64_t done = 0;
        for (const std::int64_t wanted = count * sample_bytes_; done < wanted;) {
            const ssize_t got =
                pread(file_, out + done, static_cast<std::size_t>(wanted - done), offset_ + begin + done);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) fail_at((begin + done) / sample_bytes_, got < 0 ? errno_text() : "");
            done += got;
        }
    }

  private:
    [[noreturn]] void fail_at(std::int64_t sample, const std::string& reason) const {
        const std::string where = path_ + ": sample " + std::to_string(sample);
        if (!reason.empty()) throw DataError(where + " cannot be read: " + reason);
        throw DataError(where + " is beyond the end of the file, which was cut or replaced while in use",
                        schema::pack_again(path_));
    }

    void require_whole(std::int64_t samples) const {
        struct stat status {};
        if (fstat(file_, &status) != 0) throw DataError(path_ + ": cannot be read: " + errno_text());
        const std::int64_t end = offset_ + samples * sample_bytes_;
        if (status.st_size < end)
            schema::fail(path_, "truncated: the samples end at byte " + std::to_string(end) +
                                    ", but the file has " + std::to_string(status.st_size) + " bytes");
    }

    std::string path_;
    std::int64_t sample_bytes_, offset_;
    int file_ = -1;
};

}  // namespace

std::unique_ptr<SampleStorage> contiguous_storage(const std::string& path, const DatasetInfo& info,
                                                  std::uint64_t offset) {
    return std::make_unique<ContiguousStorage>(path, info, offset);
}

}  // namespace tutti
