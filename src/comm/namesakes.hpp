#pragma once
// Private to comm: rank 0 asks where else this job's rank 0 may listen, so that two processes with RANK=0 do
// not both wait for ranks that cannot come.

#include <vector>

#include "deadline.hpp"
#include "greeting.hpp"
#include "rendezvous.hpp"

namespace tutti {

/// Knocks once a second, while rank 0 waits, at the meeting point's ports up to its own: another host may be
/// there. Who listens there as rank 0 of this job decides (Misfits) when it has been knocked at for too long.
/// One thread.
class Namesakes {
  public:
    /// port: where this process listens. All must outlive it.
    Namesakes(const MeetingPoint& point, int size, int port, WaitClock& clock);

    /// Whether this process has said it: by which way it has come to itself addresses do not always show
    /// (Linux answers from 127.0.0.1 to 127.0.1.1, routers may exchange both).
    bool is_own(const Hello& hello) const { return hello.teller == hello_.teller; }

    /// Goes on; waits at most a fifth of a second, for a port that does not answer. The connection to another
    /// rank 0 that has found the launch wrong, and says why next (Welcome::taken is misfit_for_good); an
    /// empty socket as long as none has.
    TcpSocket ask();

  private:
    void knock();

    const MeetingPoint& point_;
    Hello hello_;
    int port_;
    WaitClock& clock_;
    Deadline next_;
    std::vector<Stranger<Welcome>> asked_;
};

}  // namespace tutti
