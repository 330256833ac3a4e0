#pragma once
// HDF5 objects whose failures are exceptions, on top of the handles of src/input.

#include <hdf5.h>

#include <stdexcept>
#include <string>

#include "../input/hdf5_support.hpp"

namespace tutti::store {

/// A call into HDF5 failed; what() is the cause. The callers turn it into an error that names the file.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Why the last call failed: HDF5's innermost message, or the operating system's words where it quotes them
/// ("…, errno = 28, error message = 'No space left on device', buf = …").
inline std::string cause() {
    std::string text = hdf5::last_error();
    const std::string key = "error message = '";
    const auto found = text.find(key);
    if (found == std::string::npos) return text;
    const auto begin = found + key.size();
    const auto end = text.find('\'', begin);
    return end == std::string::npos ? text : text.substr(begin, end - begin);
}

/// Throws Failure.
inline void check(herr_t status) {
    if (status < 0) throw Failure(cause());
}

/// Owns an open file, group, data set, type, space or property list.
class Object : public hdf5::Handle {
  public:
    /// Throws Failure when `id` is the result of a failed call.
    Object(hid_t id, Close closer) : Handle(id, closer) {
        if (id < 0) throw Failure(cause());
    }

    operator hid_t() const { return get(); }

    /// Closes now; throws Failure where that fails, as it does when the last data do not reach the disk.
    void close() {
        if (!Handle::close()) throw Failure(cause());
    }
};

}  // namespace tutti::store
