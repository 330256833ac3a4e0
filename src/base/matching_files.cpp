#include "tutti/base/matching_files.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace tutti {

std::vector<std::string> matching_files(const std::string& path) {
    std::error_code none;
    if (path.find_first_of("*?[") == std::string::npos || std::filesystem::exists(path, none)) return {path};
    glob_t found{};
    const bool any = glob(path.c_str(), GLOB_NOSORT, nullptr, &found) == 0;
    std::vector<std::string> files;
    if (any) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    std::ranges::sort(files);
    return any ? files : std::vector{path};
}

std::vector<std::string> matching_files(const std::vector<std::string>& paths) {
    std::vector<std::string> files;
    for (const std::string& path : paths) {
        const std::vector<std::string> some = matching_files(path);
        files.insert(files.end(), some.begin(), some.end());
    }
    return files;
}

}  // namespace tutti
