#include "mpi_job.hpp"

#include "mpi_communicator.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/stop_signal.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

/// Seconds of waiting before anybody is looked at.
constexpr double unremarkable = 0.3;

std::string describe(const PeerWait& wait, double waited) {
    return describe_wait(wait.call(), wait.rank, mpi_host(), waited);
}

}  // namespace

void Job::watch(const PeerWait& wait, Clock::time_point now, double waited) {
    if (waited > unremarkable) {
        say_if_told_to_end(wait);
        if (broken.empty()) look_at_peers(wait, now, waited);
        if (broken.empty()) answer_who_waits(wait, now, waited);
    }
    if (broken.empty() && (timeout <= 0 || waited <= timeout)) return;

    if (!broken.empty()) throw PeerError(describe(wait, waited) + " (" + broken + ")");
    broken = wait.call() + " timed out before";
    throw PeerError(describe(wait, waited) + who_is_missing(wait), slow_or_dead);
}

void Job::say_if_told_to_end(const PeerWait& wait) {
    if (!notice || noticed || StopSignal::seconds_since_term() <= unremarkable) return;
    noticed = true;
    notice(describe_wait_after_term(wait.call(), wait.rank, mpi_host()));
}

void Job::look_at_peers(const PeerWait& wait, Clock::time_point now, double waited) {
    std::string ended;
    if (peers && now >= next_look) {
        next_look = now + peers->interval();
        ended = peers->ended();
    }
    if (ended.empty() && star) ended = star->departed();
    if (ended.empty()) return;
    broken = ended;
    throw PeerError(describe(wait, waited) + ": " + ended, ended_remedy);
}

void Job::answer_who_waits(const PeerWait& wait, Clock::time_point now, double waited) {
    if (!roll || now < next_listen) return;
    next_listen = now + std::chrono::milliseconds(100);
    const auto silent = roll->listen();
    if (!silent || silent->empty()) return;
    // A peer that has waited too long ends the job: with the same words here.
    broken = describe_silence(*silent, hosts);
    throw PeerError(describe(wait, waited) + ": " + broken, slow_or_dead);
}

std::string Job::who_is_missing(const PeerWait& wait) const {
    if (peers)
        if (const std::string lost = peers->ended_or_stopped(); !lost.empty()) return ": " + lost;
    std::vector<int> silent;
    if (wait.awaited) silent = wait.awaited();
    if (silent.empty() && roll) {
        silent = roll->silent();
        if (silent.empty()) return std::string(": ") + all_wait;
    }
    return silent.empty() ? "" : ": " + describe_silence(silent, hosts);
}

}  // namespace tutti
