#include "mpi_transfer.hpp"

#include <sched.h>

#include <array>
#include <exception>
#include <thread>

#include "checks.hpp"
#include "mpi_communicator.hpp"
#include "waiting.hpp"

namespace tutti {

Handle::~Handle() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    // MPI_Comm_free is collective: never where the peers may not come.
    if (owned && finalized == 0 && job->broken.empty() && std::uncaught_exceptions() == 0)
        MPI_Comm_free(&comm);
}

void Handle::check(int code, const char* call) const {
    if (code != MPI_SUCCESS && job->broken.empty()) job->broken = std::string(call) + " failed before";
    check_mpi(code, call, world_rank);
}

bool Handle::is_broken() const {
    if (job->broken.empty() && lane) job->broken = lane->ended_by();
    return !job->broken.empty();
}

bool WatchedTransfer::test() {
    const CallPulse::Turn turn = handle_->turn();
    return handle_->ending_the_job([&] {
        if (poll()) return true;
        if (!handle_->is_broken()) drive_others();
        watch();
        return false;
    });
}

void WatchedTransfer::wait() {
    handle_->ending_the_job([&] { wait_on(); });
}

void WatchedTransfer::wait_on() {
    // Spin first, about 0.1 ms: a peer on its own core answers within that time, and who yields to a
    // foreign program may come back milliseconds later. Then yield: a peer that shares this core needs
    // it. (A blocking MPI call spins through its whole time slice there: 8 ms for 8 bytes at 4 ranks on 2
    // cores.) A wait of seconds is not a transfer but a peer at other work: leave it the core.
    const int spins = handle_->crowded ? 16 : 1000;
    CallPulse::Turn turn = handle_->turn();
    for (int polls = 0; !poll(); ++polls, turn.beat()) {
        if (polls < spins) continue;
        watch();
        if (last_poll_ - first_poll_ < std::chrono::seconds(1))
            sched_yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

void WatchedTransfer::watch() {
    last_poll_ = Clock::now();
    const double now = std::chrono::duration<double>(last_poll_.time_since_epoch()).count();
    if (!waited_) {
        first_poll_ = last_poll_;
        waited_.emplace(now, handle_->job->timeout);
    }
    handle_->job->watch({.call = [this] { return describe(call_, count_, dtype_); },
                         .rank = handle_->world_rank,
                         .awaited = [this] { return awaited(); }},
                        last_poll_, waited_->at(now));
}

bool MpiTransfer::poll() {
    // Whoever waited for it is gone then, and perhaps the memory that it would write to.
    if (handle().is_broken()) return false;
    for (; next_ < requests_.size(); ++next_) {
        int done = 0;
        handle().check(MPI_Test(&requests_[next_], &done, MPI_STATUS_IGNORE), call());
        if (done == 0) {
            if (handle().lanes) handle().lanes->progress();
            return false;
        }
    }
    return true;
}

LaneTransfer::LaneTransfer(std::shared_ptr<const Handle> handle, std::shared_ptr<AllReduceLane> lane,
                           const char* call, const TensorView& buffer, std::uint64_t request)
    : WatchedTransfer(std::move(handle), call, buffer.count(), buffer.dtype),
      lane_(std::move(lane)),
      request_(request) {
    const CallPulse::Turn turn = this->handle().turn();
    this->handle().ending_the_job([&] { lane_->progress(); });
}

LaneTransfer::~LaneTransfer() {
    if (lane_->finished(request_)) return;
    const std::string& why = handle().job->broken;
    lane_->stop(why.empty() ? std::string(call()) + " was given up before" : why);
}

void LaneTransfer::drive_others() const {
    if (!lane_->drives_mpi()) {
        int any = 0;
        handle().check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, handle().comm, &any, MPI_STATUS_IGNORE),
                       call());
    }
    if (handle().lanes) handle().lanes->progress(lane_.get());
}

bool LaneTransfer::poll() {
    AllReduceLane& lane = *lane_;
    if (lane.finished(request_)) return true;
    if (handle().is_broken()) return false;
    if (!lane.ended_by().empty()) throw PeerError(std::string(call()) + ": " + lane.ended_by());
    lane.progress();
    if (lane.finished(request_)) return true;
    constexpr unsigned between = 64;  // MPI's progress costs more than a look at the peers' counters
    if (++polls_ % between == 0) drive_others();
    return false;
}

void check_mpi(int code, const char* call, int rank) {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
    int error_class = MPI_SUCCESS;
    const bool cut = MPI_Error_class(code, &error_class) == MPI_SUCCESS && error_class == MPI_ERR_TRUNCATE;
    throw PeerError(std::string(call) + " failed on rank " + std::to_string(rank) + ": " +
                        std::string(text.data(), static_cast<std::size_t>(length)) + " (code " +
                        std::to_string(code) + ")" +
                        (cut ? ": the ranks are in unlike calls, or their buffers differ in size" : ""),
                    cut ? same_calls : "look for the first error of another rank");
}

std::string mpi_host() {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    if (MPI_Get_processor_name(name.data(), &length) != MPI_SUCCESS) return {};
    return {name.data(), static_cast<std::size_t>(length)};
}

}  // namespace tutti
