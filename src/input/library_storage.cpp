#include <array>
#include <mutex>
#include <utility>

#include "sample_storage.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

class LibraryStorage final : public SampleStorage {
  public:
    LibraryStorage(const std::string& path, const DatasetInfo& info, hdf5::Handle file, hdf5::Handle samples)
        : path_(path),
          shape_(info.sample_shape),
          sample_bytes_(static_cast<std::size_t>(info.sample_bytes())),
          memory_type_(info.dtype == DType::f32 ? H5T_NATIVE_FLOAT : H5T_NATIVE_UINT8),
          file_(std::move(file)),
          samples_(std::move(samples)),
          space_(H5Dget_space(samples_.get()), H5Sclose) {}

    void read(std::span<const std::int64_t> indices, std::byte* out) const override {
        for_each_run(indices, [&](std::int64_t first, std::int64_t count, std::size_t begin) {
            read_run(first, count, out + begin * sample_bytes_);
        });
    }

    bool calls_library() const override { return true; }

  private:
    void read_run(std::int64_t first, std::int64_t count, std::byte* out) const {
        // The selection lives in space_: no other thread may change it between here and H5Dread.
        const std::lock_guard lock(mutex_);
        const hdf5::QuietErrors quiet;
        std::array<hsize_t, Shape::max_rank + 1> start{}, extent{};
        start[0] = static_cast<hsize_t>(first);
        extent[0] = static_cast<hsize_t>(count);
        for (std::size_t i = 0; i < shape_.rank(); ++i) extent[i + 1] = static_cast<hsize_t>(shape_[i]);
        const hdf5::Handle memory(
            H5Screate_simple(static_cast<int>(shape_.rank()) + 1, extent.data(), nullptr), H5Sclose);
        if (!memory ||
            H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) <
                0 ||
            H5Dread(samples_.get(), memory_type_, memory.get(), space_.get(), H5P_DEFAULT, out) < 0)
            fail(first, count, hdf5::last_error());
    }

    [[noreturn]] void fail(std::int64_t first, std::int64_t count, const std::string& reason) const {
        std::string which = "sample " + std::to_string(first);
        if (count > 1) which = "samples " + std::to_string(first) + ".." + std::to_string(first + count - 1);
        throw DataError(path_ + ": " + which + " cannot be read: " + reason,
                        "check the file with h5dump or copy it again");
    }

    std::string path_;
    Shape shape_;
    std::size_t sample_bytes_;
    hid_t memory_type_;  ///< one of the library's own, never closed
    hdf5::Handle file_, samples_, space_;
    mutable std::mutex mutex_;
};

}  // namespace

std::unique_ptr<SampleStorage> library_storage(const std::string& path, const DatasetInfo& info,
                                               hdf5::Handle file, hdf5::Handle samples) {
    return std::make_unique<LibraryStorage>(path, info, std::move(file), std::move(samples));
}

}  // namespace tutti
