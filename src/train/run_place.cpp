#include "run_place.hpp"

#include <fmt/format.h>

#include "tutti/base/error.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti {
namespace {

const char* words(RunPlace::Work work) {
    switch (work) {
        case RunPlace::Work::before_step:
            return "before";
        case RunPlace::Work::step:
            return "in";
        case RunPlace::Work::evaluation:
            return "in the evaluation after";
        case RunPlace::Work::checkpoint:
            return "at the checkpoint of";
        case RunPlace::Work::after_step:
            break;
    }
    return "after";
}

}  // namespace

std::string to_text(const RunPlace& place) {
    const std::string step = fmt::format("{} step {}", words(place.work), place.step);
    return place.epoch > 0 ? fmt::format("{} (epoch {})", step, place.epoch) : step;
}

void name_place_of_lost_peers(const RunPlace& place, const std::function<void()>& work) {
    try {
        work();
    } catch (const AgreedError& error) {
        if (error.code() != ExitCode::peer) throw;
        throw AgreedError(error.code(), to_text(place) + ": " + error.what());
    } catch (const Error& error) {
        if (error.code() != ExitCode::peer) throw;
        throw PeerError(to_text(place) + ": " + error.what());
    }
}

}  // namespace tutti
