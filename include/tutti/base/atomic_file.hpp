#pragma once
// Files that are complete or not there: written under another name in the same directory, synced, renamed.
// All functions throw std::system_error.

#include <string>
#include <string_view>
#include <system_error>

namespace tutti::file {

[[noreturn]] void throw_errno(int error);

/// The operating system's words for a failure, without the prefix that what() may have.
std::string cause(const std::system_error& error);

/// Writes all of `text`.
void write_all(int descriptor, std::string_view text);

/// All that is in the file.
std::string content(const std::string& path);
/// Nothing of one that cannot be read.
std::string content_or_nothing(const std::string& path);

/// The temporary that this process writes before it becomes `path`: PATH.HOST-PID.tmp, with the host's name
/// up to its first dot. So two hosts that write one file of a common file system do not write into each
/// other's.
std::string temporary_name(const std::string& path);

/// What a file of this name would have become, if it has the form that temporary_name() gives, or that
/// earlier versions gave, PATH.PID.tmp; else empty.
std::string_view target_of_temporary(std::string_view name);

/// Removes what processes of this host that are no more (killed, out of memory) left of writing `path`.
void remove_left_over(const std::string& path);

/// A file under its temporary name; removed again unless commit() succeeded.
class Temporary {
  public:
    explicit Temporary(std::string path);
    ~Temporary();
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;

    int descriptor() const { return descriptor_; }
    const std::string& name() const { return name_; }

    /// Syncs, gives the file its name, syncs the directory.
    void commit();

  private:
    std::string target_;
    std::string name_;
    int descriptor_ = -1;
    bool committed_ = false;
};

/// `path` holds `content`, or what it held before.
void replace(const std::string& path, std::string_view content);

}  // namespace tutti::file
