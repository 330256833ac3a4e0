#include "tutti/base/expanded_path.hpp"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tutti/base/error.hpp"

namespace tutti {

std::string expanded_path(const std::string& name, const std::string& path) {
    const auto fail = [&](const std::string& problem, const std::string& remedy) {
        throw UsageError(name + ": " + path + ": " + problem, remedy);
    };
    for (std::size_t at = path.find('$'); at != std::string::npos; at = path.find('$', at + 1)) {
        const char next = at + 1 < path.size() ? path[at + 1] : '\0';
        if (next == '{' || next == '_' || std::isalpha(static_cast<unsigned char>(next)) != 0)
            fail("nobody replaces the variable",
                 "write the folder out; on the command line a shell replaces it in double quotes");
    }
    if (path != "~" && (!path.starts_with('~') || path.find('/') == std::string::npos)) return path;
    if (path.size() > 1 && path[1] != '/') fail("nobody replaces the name of a user", "write the folder out");
    const char* const home = std::getenv("HOME");
    if (home == nullptr || *home == '\0') fail("HOME is not set in the environment", "write the folder out");
    return home + path.substr(1);
}

std::string expanded_option(const std::string& name, const std::string& path) {
    std::error_code none;
    return std::filesystem::exists(path, none) ? path : expanded_path(name, path);
}

}  // namespace tutti
