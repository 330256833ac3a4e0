#pragma once
// Files that are named by a pattern.

#include <string>
#include <vector>

namespace tutti {

/// The files that a pattern with *, ? or [ fits (glob(3)), in the order of their names as bytes; a name that
/// is no pattern, that a file has as it is, or that fits none stays, for whoever opens it to speak of.
std::vector<std::string> matching_files(const std::string& path);

/// Of several, one behind the other.
std::vector<std::string> matching_files(const std::vector<std::string>& paths);

}  // namespace tutti
