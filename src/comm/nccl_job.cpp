#include "nccl_job.hpp"

#include <sched.h>

#include <array>
#include <exception>
#include <utility>

#include "nccl_abort.hpp"
#include "waiting.hpp"

namespace tutti {

NcclJob::NcclJob(std::shared_ptr<NcclApi> api, std::shared_ptr<GpuSideStream> stream,
                 std::shared_ptr<Communicator> bootstrap, NcclSettings settings,
                 std::shared_ptr<NcclFamily> family)
    : api_(std::move(api)),
      stream_(std::move(stream)),
      bootstrap_(std::move(bootstrap)),
      settings_(std::move(settings)),
      family_(std::move(family)),
      rank_(bootstrap_->rank()),
      size_(bootstrap_->size()) {
    family_->members.push_back(this);
}

NcclJob::~NcclJob() {
    try {
        close();
    } catch (...) {
        // Broken by now, and so aborted; the first error is on its way.
    }
    std::erase(family_->members, this);
}

void NcclJob::open(const NcclUniqueId& id) {
    const std::string call = "ncclCommInitRank";
    WaitedTime waited = begin_to_wait();
    NcclResult result = api_->init_rank(communicator_, size_, id, rank_);
    while (true) {
        std::exception_ptr error;
        try {
            if (result == NcclResult::in_progress) result = state();
            if (result == NcclResult::in_progress)
                watch_peers(call, waited);
            else if (result != NcclResult::success)
                fail(call, result);
        } catch (const Error&) {
            error = std::current_exception();
        }
        std::array<std::int64_t, 2> any{error ? 1 : 0, result == NcclResult::in_progress ? 1 : 0};
        bootstrap_->all_reduce(view_of(std::span(any)), ReduceOp::max).wait();
        if (error) std::rethrow_exception(std::move(error));
        if (any[0] != 0) {
            give_up("another rank could not start NCCL");
            return;
        }
        if (any[1] == 0) return;
        sched_yield();
    }
}

void NcclJob::require_whole() const {
    if (broken())
        throw PeerError("rank " + std::to_string(rank_) + " on " + settings_.host +
                        " cannot reach its peers: " + broken_);
}

void NcclJob::settle(const std::string& call, NcclResult result) {
    WaitedTime waited = begin_to_wait();
    while (result == NcclResult::in_progress) {
        result = state();
        if (result != NcclResult::in_progress) break;
        watch_peers(call, waited);
        sched_yield();
    }
    if (result != NcclResult::success) fail(call, result);
}

void NcclJob::check(const std::string& call, WaitedTime& waited) {
    const NcclResult result = state();
    if (result != NcclResult::success && result != NcclResult::in_progress) fail(call, result);
    watch_peers(call, waited);
}

bool NcclJob::give_up(const std::string& reason) {
    if (broken()) return true;
    for (NcclJob* const one : family_->members)
        if (!one->broken()) one->broken_ = reason;
    // The recording under way has kernels of NCCL's, too, and ends with the error that follows; nothing
    // of it runs yet.
    return recording() || end();
}

bool NcclJob::recording() const {
    try {
        return stream_->recording();
    } catch (...) {
        // A dead GPU answers everything with its error, and has no recording to wait for. The caller's error
        // is the one to tell.
        return false;
    }
}

void NcclJob::give_up(const std::string& reason, const Error& error) {
    will_end_with({error.code(), error.what()});
    if (!give_up(reason)) leave();
}

void NcclJob::will_end_with(const Failure& failure) {
    family_->last_word.tell(failure);
}

void NcclJob::leave_behind() {
    if (!give_up("left by an error")) leave();
}

void NcclJob::remove_window(NcclWindow window) {
    if (std::uncaught_exceptions() > 0) return leave_behind();
    settle("ncclCommWindowDeregister", api_->deregister_window(communicator_, window));
}

NcclResult NcclJob::state() {
    NcclResult found = NcclResult::success;
    const NcclResult asked = api_->async_error(communicator_, found);
    return asked == NcclResult::success ? found : asked;
}

std::string NcclJob::place(const std::string& call) const {
    return call + " on rank " + std::to_string(rank_) + " (" + settings_.host + ")";
}

void NcclJob::watch_peers(const std::string& call, WaitedTime& waited) {
    const double seconds = waited.at(now());
    std::string reason = call + " lost a peer before";
    try {
        bootstrap_->watch_peers(call, seconds);
        if (settings_.timeout <= 0 || seconds <= settings_.timeout) return;
        reason = call + " timed out before";
        throw PeerError(describe_wait(call, rank_, settings_.host, seconds), slow_or_dead);
    } catch (const PeerError& error) {
        give_up(reason, error);
        throw;
    }
}

void NcclJob::fail(const std::string& call, NcclResult result) {
    try {
        throw_nccl_error(place(call), result, api_->error_text(result, communicator_));
    } catch (const Error& error) {
        give_up(call + " failed before", error);
        throw;
    }
}

Failure NcclJob::known_failure() const {
    if (const Failure& told = family_->last_word.told(); told.code != ExitCode::done) return told;
    return {ExitCode::peer, "rank " + std::to_string(rank_) + " on " + settings_.host +
                                " gave up: " + broken_ + "; look for the first error of any rank"};
}

bool NcclJob::end() {
    for (const auto& one : family_->before_abort)
        if (const auto release = one.lock()) (*release)();
    std::vector<NcclComm> communicators;
    for (NcclJob* const one : family_->members)
        if (NcclComm its = std::exchange(one->communicator_, nullptr)) communicators.push_back(its);
    return abort_within(api_, communicators, settings_.abort_patience, [&] {
        if (settings_.say) settings_.say(known_failure().message + "; waiting for NCCL to abort");
    });
}

void NcclJob::leave() {
    if (!settings_.leave) return;
    family_->last_word.is_stuck(
        known_failure(), settings_.word_patience,
        [leave = settings_.leave, patience = settings_.abort_patience](const Failure& failure) {
            leave(failure.message + "; NCCL did not abort within " +
                      std::to_string(static_cast<long>(patience)) +
                      " s, so the process ends here without giving its memory back",
                  failure.code);
        });
}

void NcclJob::close() {
    if (communicator_ == nullptr) return;
    // A failure within a recording, which is gone by now.
    if (broken()) {
        if (!end()) leave();
        return;
    }
    // Finalizing waits for the peers: never where they may not come.
    if (std::uncaught_exceptions() > 0) return leave_behind();
    settle("ncclCommFinalize", api_->finalize(communicator_));
    api_->destroy(std::exchange(communicator_, nullptr));
}

}  // namespace tutti
