#include <zlib.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sample_storage.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Decompresses chunks one after the other, in memory that is allocated once.
class Inflater {
  public:
    Inflater() : usable_(inflateInit(&stream_) == Z_OK) {}
    ~Inflater() {
        if (usable_) inflateEnd(&stream_);
    }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    /// Where a chunk of so many bytes is put before inflate().
    std::byte* compressed(std::size_t bytes) {
        if (compressed_.size() < bytes) compressed_.resize(bytes);
        compressed_bytes_ = bytes;
        return compressed_.data();
    }

    enum class Result {
        whole,
        too_few,  ///< the chunk ends, with a right checksum, before `bytes` bytes
        other     ///< damaged, too many, or not what zlib knows
    };
    Result inflate(std::byte* out, std::size_t bytes) {
        if (!usable_ || inflateReset(&stream_) != Z_OK) return Result::other;
        stream_.next_in = reinterpret_cast<Bytef*>(compressed_.data());
        stream_.avail_in = static_cast<uInt>(compressed_bytes_);
        stream_.next_out = reinterpret_cast<Bytef*>(out);
        stream_.avail_out = static_cast<uInt>(bytes);
        if (::inflate(&stream_, Z_FINISH) != Z_STREAM_END) return Result::other;
        return stream_.avail_out == 0 ? Result::whole : Result::too_few;
    }

  private:
    z_stream stream_{};
    bool usable_;
    std::vector<std::byte> compressed_;
    std::size_t compressed_bytes_ = 0;
};

class DeflatedStorage final : public SampleStorage {
  public:
    DeflatedStorage(const std::string& path, const DatasetInfo& info, hdf5::Handle samples,
                    std::unique_ptr<SampleStorage> library)
        : path_(path),
          sample_bytes_(static_cast<std::size_t>(info.sample_bytes())),
          samples_(std::move(samples)),
          library_(std::move(library)) {}

    bool calls_library() const override { return true; }
    void read(std::span<const std::int64_t> indices, std::byte* out) const override {
        std::unique_ptr<Inflater> inflater = take();
        for (std::size_t i = 0; i < indices.size(); ++i) {
            std::byte* const sample = out + i * sample_bytes_;
            const auto result = fetch(indices[i], *inflater) ? inflater->inflate(sample, sample_bytes_)
                                                             : Inflater::Result::other;
            // The library would leave the rest of the sample as it finds it, and report nothing.
            if (result == Inflater::Result::too_few)
                throw DataError(path_ + ": sample " + std::to_string(indices[i]) +
                                    " cannot be read: its chunk holds too few bytes",
                                "check the file with h5dump or copy it again");
            // Chunks that are stored without the filter, and all other errors, are the library's.
            if (result == Inflater::Result::other) library_->read(indices.subspan(i, 1), sample);
        }
        give_back(std::move(inflater));
    }

  private:
    /// One for each thread that reads at the same time.
    std::unique_ptr<Inflater> take() const {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) return std::make_unique<Inflater>();
        std::unique_ptr<Inflater> taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
    }

    void give_back(std::unique_ptr<Inflater> inflater) const {
        const std::lock_guard lock(mutex_);
        idle_.push_back(std::move(inflater));
    }

    /// Whether the chunk of the sample is compressed, and now in `inflater`. The library does this alone
    /// under its lock.
    bool fetch(std::int64_t sample, Inflater& inflater) const {
        const hdf5::QuietErrors quiet;
        std::array<hsize_t, Shape::max_rank + 1> chunk{};
        chunk[0] = static_cast<hsize_t>(sample);
        // Between the two calls no other may move the library's notice of the last chunk.
        const std::lock_guard lock(library_mutex_);
        hsize_t bytes = 0;
        std::uint32_t left_out = 0;
        return H5Dget_chunk_storage_size(samples_.get(), chunk.data(), &bytes) >= 0 && bytes > 0 &&
               H5Dread_chunk(samples_.get(), H5P_DEFAULT, chunk.data(), &left_out,
                             inflater.compressed(static_cast<std::size_t>(bytes))) >= 0 &&
               left_out == 0;
    }

    std::string path_;
    std::size_t sample_bytes_;
    hdf5::Handle samples_;
    std::unique_ptr<SampleStorage> library_;
    mutable std::mutex mutex_, library_mutex_;
    mutable std::vector<std::unique_ptr<Inflater>> idle_;
};

/// Whether a chunk is one sample as it is in memory, compressed with gzip and nothing else, and there are
/// more of them than the library keeps decompressed.
bool is_deflated_by_sample(const DatasetInfo& info, hid_t samples, hid_t layout) {
    if (H5Pget_layout(layout) != H5D_CHUNKED || H5Pget_nfilters(layout) != 1) return false;
    // What the library's cache can hold it decompresses once.
    const auto bytes = static_cast<std::size_t>(info.samples * info.sample_bytes());
    if (bytes <= hdf5::chunk_cache_bytes && static_cast<std::size_t>(info.samples) <= hdf5::chunk_cache_slots)
        return false;
    unsigned flags = 0;
    std::size_t values = 0;
    if (H5Pget_filter2(layout, 0, &flags, &values, nullptr, 0, nullptr, nullptr) != H5Z_FILTER_DEFLATE)
        return false;
    const hdf5::Handle type(H5Dget_type(samples), H5Tclose);
    if (H5Tequal(type.get(), H5T_NATIVE_UINT8) <= 0 && H5Tequal(type.get(), H5T_NATIVE_FLOAT) <= 0)
        return false;
    std::array<hsize_t, Shape::max_rank + 1> chunk{};
    const int rank = H5Pget_chunk(layout, static_cast<int>(chunk.size()), chunk.data());
    bool by_sample = rank == static_cast<int>(info.sample_shape.rank()) + 1 && chunk[0] == 1;
    for (std::size_t i = 0; by_sample && i < info.sample_shape.rank(); ++i)
        by_sample = chunk[i + 1] == static_cast<hsize_t>(info.sample_shape[i]);
    return by_sample;
}

}  // namespace

std::unique_ptr<SampleStorage> chunked_storage(const std::string& path, const DatasetInfo& info, hid_t layout,
                                               hdf5::Handle file, hdf5::Handle samples) {
    const bool deflated = is_deflated_by_sample(info, samples.get(), layout);
    hdf5::Handle again;
    if (deflated && H5Iinc_ref(samples.get()) > 0) again = hdf5::Handle(samples.get(), H5Dclose);
    std::unique_ptr<SampleStorage> library = library_storage(path, info, std::move(file), std::move(samples));
    if (!again) return library;
    return std::make_unique<DeflatedStorage>(path, info, std::move(again), std::move(library));
}

}  // namespace tutti
