#pragma once
// What every caller of the HDF5 C library here needs: handles that close themselves, and its errors as text
// instead of a stack printed on stderr.

#include <hdf5.h>

#include <cstddef>
#include <string>
#include <utility>

namespace tutti::hdf5 {

/// Of the library's cache of decompressed chunks, for each data set.
inline constexpr std::size_t chunk_cache_bytes = std::size_t{64} << 20, chunk_cache_slots = 12421;

/// Keeps the library from printing its error stack on this thread, for the lifetime of the object. Declare it
/// before the handles of the same scope, so that closing them is quiet, too.
class QuietErrors {
  public:
    QuietErrors() {
        H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
        H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    }
    ~QuietErrors() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
    QuietErrors(const QuietErrors&) = delete;
    QuietErrors& operator=(const QuietErrors&) = delete;

  private:
    H5E_auto2_t function_ = nullptr;
    void* data_ = nullptr;
};

/// Whether several threads may call the library at a time, which then lets them in one by one.
bool is_thread_safe();

/// The innermost message of the call that just failed on this thread; any further HDF5 call erases it.
std::string last_error();

/// Owns one HDF5 identifier.
class Handle {
  public:
    using Close = herr_t (*)(hid_t);

    Handle() = default;
    Handle(hid_t id, Close function) : id_(id), close_(function) {}
    Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(id_, other.id_);
        std::swap(close_, other.close_);
        return *this;
    }
    ~Handle() { close(); }

    explicit operator bool() const { return id_ >= 0; }
    hid_t get() const { return id_; }
    /// Closes now; false when the library reports an error, which for a file may be a failed write.
    bool close() {
        const hid_t id = std::exchange(id_, H5I_INVALID_HID);
        return id < 0 || close_(id) >= 0;
    }

  private:
    hid_t id_ = H5I_INVALID_HID;
    Close close_ = nullptr;
};

/// How files are opened for reading: without locks, which cluster file systems often lack and finished files
/// need none of.
Handle file_access();

/// The name of the file in which an open object lies: with external links another one than was opened.
std::string file_of(hid_t object);

}  // namespace tutti::hdf5
