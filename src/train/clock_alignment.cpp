#include "clock_alignment.hpp"

#include <array>
#include <limits>
#include <vector>

#include "tutti/base/steady_seconds.hpp"

namespace tutti {
namespace {

constexpr int rounds = 9;

/// On rank 0 the estimate of `peer`'s clock; nothing of use on the others.
ClockEstimate ask(Communicator& communicator, int peer) {
    ClockEstimate best{.round_trip = std::numeric_limits<double>::infinity()};
    for (int round = 0; round < rounds; ++round) {
        double sent = steady_seconds();
        communicator.broadcast(view_of(std::span(&sent, 1)), 0).wait();
        double answered = steady_seconds();
        communicator.broadcast(view_of(std::span(&answered, 1)), peer).wait();
        const double received = steady_seconds();
        if (received - sent >= best.round_trip) continue;
        best = {answered, (sent + received) / 2 - answered, received - sent};
    }
    return best;
}

}  // namespace

ClockEstimate estimate_clock(Communicator& communicator) {
    std::vector<double> all{steady_seconds(), 0, 0};
    for (int peer = 1; peer < communicator.size(); ++peer) {
        const ClockEstimate one = ask(communicator, peer);
        all.insert(all.end(), {one.local, one.offset, one.round_trip});
    }
    communicator.broadcast(view_of(std::span(all)), 0).wait();
    const auto mine = std::span(all).subspan(3 * static_cast<std::size_t>(communicator.rank()), 3);
    return {mine[0], mine[1], mine[2]};
}

double AlignedClock::to_rank0(double local) const {
    const double between = end_.local - begin_.local;
    // Over less than a second the estimates' own errors would pass for a drift.
    if (between < 1) return local + (begin_.round_trip < end_.round_trip ? begin_ : end_).offset;
    const double part = (local - begin_.local) / between;
    return local + begin_.offset + part * (end_.offset - begin_.offset);
}

}  // namespace tutti
