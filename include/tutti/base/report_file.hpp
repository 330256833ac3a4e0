#pragma once
// Files that a command leaves behind: whole, or not there.

#include <string>
#include <string_view>

namespace tutti {

/// DIRECTORY/NAME for a report, after making sure that it can be written: makes the directory if it is
/// missing. Call it before the work whose result it takes. Throws UsageError, which names the `option`, and
/// RunError where there is no room.
std::string prepare_report(const std::string& directory, const std::string& name,
                           const std::string& option = "--out");

/// Throws what prepare_report() would, but makes nothing: for before other things are looked at.
void check_report_place(const std::string& directory, const std::string& name, const std::string& option);

/// Makes sure that `path`, a file to be written, can be made: in its folder, or in what there is of that.
/// Call it before the work whose result it takes. Gives the path to write to: `path` or, of a symbolic link,
/// where that leads, so that the link stays and the file behind it is replaced. Throws UsageError, also where
/// `path` is a directory, and RunError where there is no room.
std::string prepare_output(const std::string& path, const std::string& option = "-o");

/// Makes what is missing of the folder of `path`, a file that is about to be written. Throws UsageError, and
/// RunError where there is no room.
void make_folder_of(const std::string& path, const std::string& option = "-o");

/// Writes under another name, syncs, renames: `path` holds `text`, or what it held before; what is missing of
/// its folder is made. Throws RunError.
void write_report(const std::string& path, std::string_view text);

/// All that `path`, a file or a pipe, holds. Throws DataError with the system's reason and `remedy`.
std::string read_report(const std::string& path, const std::string& remedy);

}  // namespace tutti
