#pragma once
// Private to comm: transfers under way, and what they do while peers do not come.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "all_reduce_lane.hpp"
#include "host_layout.hpp"
#include "mpi_job.hpp"
#include "tutti/comm/work.hpp"
#include "waited_time.hpp"

namespace tutti {

/// Of messages between two ranks beside those of lanes, whose tags are below. MPI guarantees tags up to
/// 32767; RollCall's follow.
constexpr int exchange_tag = 16384;
static_assert(RollCall::first_tag > exchange_tag);

/// A communicator handle; lives as long as a transfer on it.
struct Handle {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;
    int size = 1;
    int world_rank = 0;  ///< for messages
    bool owned = false;
    std::shared_ptr<Job> job;
    std::shared_ptr<Lanes> lanes;         ///< all of the process; null where there are none
    std::shared_ptr<AllReduceLane> lane;  ///< of this communicator; null: MPI's own all-reduce
    /// How duplicates get theirs; collective.
    std::shared_ptr<AllReduceLane> (*make_lane)(const std::shared_ptr<const Handle>&) = nullptr;
    std::shared_ptr<const HostLayout> layout;  ///< for make_two_level_lane; null: not that many
    bool crowded = false;                      ///< this host is known to have fewer cores than ranks

    Handle() = default;
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle();

    void check(int code, const char* call) const;
    /// To be held while MPI is called.
    CallPulse::Turn turn() const { return CallPulse::Turn(job->pulse.get()); }
    /// Whether no peer can be waited for any more: the job knows why, or learns it of the lane here, which
    /// communicators of other jobs use, too.
    bool is_broken() const;
    /// What leaves `work` is why no peer can be waited for any more.
    template <class Call>
    auto ending_the_job(const Call& work) const {
        try {
            return work();
        } catch (const std::exception& error) {
            if (job->broken.empty()) job->broken = error.what();
            throw;
        }
    }
};

/// A transfer that gives up as the job's time-out and notice demand.
class WatchedTransfer : public Work::Transfer {
  public:
    WatchedTransfer(std::shared_ptr<const Handle> handle, const char* call, std::int64_t count, DType dtype)
        : handle_(std::move(handle)), call_(call), count_(count), dtype_(dtype) {}

    bool test() final;
    void wait() final;

  protected:
    /// Progresses; true when finished.
    virtual bool poll() = 0;
    /// What else waits in this process for a call to move on, and has not done so in a poll() that returned
    /// false: a peer may wait for that first. Calls of MPI that find nothing are a system call each.
    virtual void drive_others() const = 0;
    /// Ranks from which nothing has come, as far as that can be told.
    virtual std::vector<int> awaited() const { return {}; }

    const Handle& handle() const { return *handle_; }
    const char* call() const { return call_; }

  private:
    using Clock = std::chrono::steady_clock;
    void wait_on();
    void watch();

    std::shared_ptr<const Handle> handle_;
    const char* call_;
    std::int64_t count_;
    DType dtype_;
    Clock::time_point first_poll_{}, last_poll_{};
    std::optional<WaitedTime> waited_;
};

/// One collective under way as one or several MPI requests.
class MpiTransfer final : public WatchedTransfer {
  public:
    using WatchedTransfer::WatchedTransfer;
    /// The request of the next piece.
    MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  private:
    bool poll() override;
    void drive_others() const override {}  // poll() has

    std::vector<MPI_Request> requests_;
    std::size_t next_ = 0;
};

/// A collective under way on a lane of the communicator.
class LaneTransfer final : public WatchedTransfer {
  public:
    /// request: of the lane.
    LaneTransfer(std::shared_ptr<const Handle> handle, std::shared_ptr<AllReduceLane> lane, const char* call,
                 const TensorView& buffer, std::uint64_t request);
    /// What is not finished now has been given up: the buffer may go, the lane must not touch it.
    ~LaneTransfer() override;

  private:
    bool poll() override;
    void drive_others() const override;
    std::vector<int> awaited() const override { return lane_->awaited(); }

    std::shared_ptr<AllReduceLane> lane_;
    std::uint64_t request_;
    unsigned polls_ = 0;
};

}  // namespace tutti
