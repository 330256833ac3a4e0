#include "tutti/base/cache_directory.hpp"

#include <cstdlib>

namespace tutti {

std::filesystem::path cache_directory() {
    const auto set = [](const char* name) {
        const char* value = std::getenv(name);
        return value && *value ? std::filesystem::path(value) : std::filesystem::path();
    };
    if (const auto own = set("TUTTI_CACHE"); !own.empty()) return own;
    if (const auto caches = set("XDG_CACHE_HOME"); !caches.empty()) return caches / "tutti";
    if (const auto home = set("HOME"); !home.empty()) return home / ".cache" / "tutti";
    return std::filesystem::temp_directory_path() / "tutti";
}

}  // namespace tutti
