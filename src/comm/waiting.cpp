#include "waiting.hpp"

#include <array>
#include <cstdio>

namespace tutti {
namespace {

std::string rank_on(int rank, const std::string& host) {
    return "rank " + std::to_string(rank) + " on " + host;
}

}  // namespace

std::string describe_wait(const std::string& call, int rank, const std::string& host, double seconds) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", seconds);
    return call + ": " + rank_on(rank, host) + " waited " + text.data() + " s for its peers";
}

std::string describe_wait_after_term(const std::string& call, int rank, const std::string& host) {
    return call + ": " + rank_on(rank, host) +
           " still waits for its peers after SIGTERM: one of them has probably ended; look for the first "
           "error of another rank, then start the same command again: it resumes from the last checkpoint";
}

}  // namespace tutti
