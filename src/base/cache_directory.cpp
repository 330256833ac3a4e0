#include "tutti/base/cache_directory.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tutti {

std::filesystem::path cache_directory() {
    const auto set = [](const char* name) {
        const char* value = std::getenv(name);
        return value && *value ? std::filesystem::path(value) : std::filesystem::path();
    };
    if (const auto own = set("TUTTI_CACHE"); !own.empty()) return own;
    if (const auto caches = set("XDG_CACHE_HOME"); !caches.empty()) return caches / "tutti";
    if (const auto home = set("HOME"); !home.empty()) return home / ".cache" / "tutti";
    std::error_code no_such_folder;  // of TMPDIR
    const auto temporaries = std::filesystem::temp_directory_path(no_such_folder);
    return (no_such_folder ? std::filesystem::path("/tmp") : temporaries) /
           ("tutti-" + std::to_string(::getuid()));
}

}  // namespace tutti
