#pragma once
// The lock of a run directory.

#include <string>

namespace tutti {

/// An open-file-description lock on DIR/lock: it ends with the process, however that ends. The file holds
/// "HOST PID\n" for the message to others. File systems without locks (ENOLCK and the like) are used without
/// one.
class RunLock {
  public:
    /// Throws UsageError when another process holds it, or where the file cannot be opened or written,
    /// RunError where there is no room for it.
    explicit RunLock(const std::string& directory);
    ~RunLock();
    RunLock(const RunLock&) = delete;
    RunLock& operator=(const RunLock&) = delete;

    /// Throws RunError where the directory is no longer what its path names (removed, moved, replaced).
    void require_directory() const;
    /// The same, and where another process has locked it after the file was removed from it; one that nobody
    /// has is made and locked anew.
    void require();

    static constexpr const char* name = "lock";
    /// Of a run whose directory is no longer its own.
    static constexpr const char* remedy =
        "start it again, in a directory that no other run uses and nobody removes";

  private:
    void lock(bool in_start);

    std::string directory_;
    int directory_descriptor_ = -1;  ///< while it is open no other directory gets its inode number
    int descriptor_ = -1;
};

}  // namespace tutti
