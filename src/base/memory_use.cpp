#include "tutti/base/memory_use.hpp"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace tutti {
namespace {

std::int64_t from_status(const std::string& key) {
    std::ifstream status("/proc/self/status");
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
    return from_status("VmRSS:");
}

std::int64_t peak_resident_bytes() {
    return from_status("VmHWM:");
}

std::int64_t page_faults() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt + use.ru_majflt;
}

}  // namespace tutti
