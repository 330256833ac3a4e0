#include "all_reduce_lane.hpp"

#include <exception>

namespace tutti {

void AllReduceLane::progress() {
    try {
        work_off();
    } catch (const std::exception& error) {
        // The peers will not get what they wait for, nor will this rank.
        stop(error.what());
        throw;
    }
}

void AllReduceLane::stop(const std::string& why) {
    if (ended_by_.empty()) ended_by_ = why;
    halt();
}

}  // namespace tutti
