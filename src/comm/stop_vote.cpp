#include "tutti/comm/stop_vote.hpp"

#include <cstdint>

#include "tutti/base/stop_signal.hpp"

namespace tutti {

int stop_signal_of_any(Communicator& communicator) {
    std::int64_t signal = StopSignal::pending();
    communicator.all_reduce(view_of(std::span(&signal, 1)), ReduceOp::max).wait();
    return static_cast<int>(signal);
}

void end_if_stopped(Communicator& communicator, const std::string& phase) {
    if (const int signal = stop_signal_of_any(communicator); signal != 0)
        throw AgreedError(ExitCode::failed, "stopped by signal " + std::to_string(signal) + " while " +
                                                phase + "; no file was written");
}

}  // namespace tutti
