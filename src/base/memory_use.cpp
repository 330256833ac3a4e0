#include "tutti/base/memory_use.hpp"

#include <fstream>
#include <string>

namespace tutti {
namespace {

std::int64_t from(const char* path, const std::string& key) {
    std::ifstream status(path);
    std::string name, rest;
    while (status >> name) {
        std::int64_t kilobytes = 0;
        if (name == key && status >> kilobytes) return kilobytes * 1024;
        std::getline(status, rest);
    }
    return 0;
}

}  // namespace

std::int64_t resident_bytes() {
    return from("/proc/self/status", "VmRSS:");
}

std::int64_t peak_resident_bytes() {
    return from("/proc/self/status", "VmHWM:");
}

std::int64_t available_bytes() {
    return from("/proc/meminfo", "MemAvailable:");
}

}  // namespace tutti
