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
    const Finding found = who_is_missing(wait);
    throw PeerError(describe(wait, waited) + (found.text.empty() ? "" : ": ") + found.text, found.remedy);
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
    const auto verdict = roll->listen(wait.call());
    if (!verdict || (verdict->silent.empty() && verdict->unlike.empty())) return;
    // A peer that has waited too long ends the job: with the same words here.
    const Finding found = finding_of(*verdict);
    broken = found.text;
    throw PeerError(describe(wait, waited) + ": " + broken, found.remedy);
}

Job::Finding Job::finding_of(const RollCall::Verdict& verdict) const {
    if (!verdict.unlike.empty()) return {describe_unlike_calls(verdict.unlike), same_calls};
    return {verdict.silent.empty() ? all_wait : describe_silence(verdict.silent, hosts), slow_or_dead};
}

Job::Finding Job::who_is_missing(const PeerWait& wait) const {
    if (peers)
        if (const std::string lost = peers->ended_or_stopped(); !lost.empty()) return {lost, slow_or_dead};
    std::vector<int> awaited;
    if (wait.awaited) awaited = wait.awaited();
    if (!roll) return {describe_silence(awaited, hosts), slow_or_dead};
    RollCall::Verdict verdict = roll->ask(wait.call());
    // From whom nothing has come here is known without rank 0; it may wait all the same, in another call.
    if (verdict.guessed && !awaited.empty()) verdict.silent = awaited;
    return finding_of(verdict);
}

}  // namespace tutti
