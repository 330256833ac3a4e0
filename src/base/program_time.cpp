#include "tutti/base/program_time.hpp"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace tutti {
namespace {

double now() {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double start() {
    std::ifstream file("/proc/self/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    // The program's name, in parentheses, may hold anything; starttime is the 20th field after it.
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) return now();
    std::istringstream fields(text.substr(name_end + 1));
    std::string skipped;
    for (int field = 0; field < 19; ++field) fields >> skipped;
    double ticks = 0;
    if (!(fields >> ticks)) return now();
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double seconds_since_start() {
    static const double begin = start();
    return now() - begin;
}

}  // namespace tutti
