// How often must a transfer be polled? One all-reduce of 16 MiB, polled at an interval with a wait in
// between, as a computation without other calls would be; run by progress_modes.py --intervals.
//
//   bench_poll_interval : prints "INTERVAL_MS MILLISECONDS MBIT_PER_S" for each interval on rank 0, medians
//   of 5.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "tutti/comm/mpi_session.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double polled(Communicator& world, std::vector<float>& buffer, double interval) {
    world.barrier();
    const auto begin = Clock::now();
    Work work = world.all_reduce(view_of(std::span(buffer)), ReduceOp::sum);
    for (int poll = 1; !work.test(); ++poll) {
        const auto next = begin + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(interval * poll));
        std::this_thread::sleep_until(next);
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

int run() {
    MpiSession session;
    const auto world = session.world(120);
    std::vector<float> buffer(4 << 20);
    constexpr double intervals[] = {0, 0.1e-3, 0.2e-3, 0.5e-3, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3};
    polled(*world, buffer, 0);
    for (const double interval : intervals) {
        std::vector<double> seconds;
        for (int i = 0; i < 5; ++i) seconds.push_back(polled(*world, buffer, interval));
        std::sort(seconds.begin(), seconds.end());
        const double median = seconds[seconds.size() / 2];
        if (session.rank() == 0)
            fmt::print("{:5.1f} ms {:8.1f} ms {:6.0f} Mbit/s\n", interval * 1e3, median * 1e3,
                       static_cast<double>(buffer.size() * sizeof(float)) * 8 / median / 1e6);
    }
    return 0;
}

}  // namespace
}  // namespace tutti

int main() {
    return tutti::run();
}
