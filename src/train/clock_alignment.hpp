#pragma once
// The ranks' clocks, seen from rank 0's.

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// What a rank knew at one moment: at `local` on its steady clock (steady_seconds), rank 0's showed local +
/// offset, give or take half the round trip. Seconds.
struct ClockEstimate {
    double local = 0, offset = 0, round_trip = 0;
};

/// Rank 0 and one rank after another exchange a message and its answer, 9 times; of the fastest the answer's
/// time is taken to lie in the middle (as in NTP, RFC 5905, section 8). The messages are broadcasts, in which
/// all ranks take part: that may lengthen the round trip, but the answer still lies inside. Collective.
ClockEstimate estimate_clock(Communicator& communicator);

/// Rank 0's time for local times, by a straight line through two estimates: clocks drift evenly for minutes.
class AlignedClock {
  public:
    AlignedClock(const ClockEstimate& begin, const ClockEstimate& end) : begin_(begin), end_(end) {}
    double to_rank0(double local) const;

  private:
    ClockEstimate begin_, end_;
};

}  // namespace tutti
