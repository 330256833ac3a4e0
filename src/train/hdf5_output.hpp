#pragma once
// The HDF5 file that a checkpoint, weights or predictions are written to.

#include <memory>
#include <string>

#include "hdf5_handle.hpp"

namespace tutti::store {

/// Creates an HDF5 file in an open, empty file. The library (1.10) does not survive a write that fails while
/// it flushes or closes: it keeps the identifier of a file that it has already freed, and crashes later. So
/// it writes through a driver of ours that always succeeds, and that keeps the first error for check() and
/// close() to throw.
class OutputFile {
  public:
    /// `descriptor` stays the caller's; `name` is for HDF5's messages. Throws Failure.
    OutputFile(int descriptor, const std::string& name);

    hid_t id() const { return file_; }
    /// Throws std::system_error when a write has failed by now.
    void check() const;
    /// Writes what is left and closes. Throws std::system_error or Failure.
    void close();

  private:
    std::unique_ptr<int> error_;  ///< errno of the first failed write; its address stays with the driver
    Object driver_;
    Object file_;
};

}  // namespace tutti::store
