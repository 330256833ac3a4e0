#pragma once
// What lies at a path, where the operating system may refuse to say.

#include <filesystem>
#include <string>

namespace tutti {

/// The type of what lies at `path`, links followed; not_found where nothing does. Throws DataError, with the
/// system's reason, where that cannot be looked at: a folder that must not be searched, a loop of links, a
/// name that is too long, a server that does not answer.
std::filesystem::file_type type_of_path(const std::string& path);

}  // namespace tutti
