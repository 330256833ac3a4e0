#pragma once
// Private to comm: the life of NCCL's communicator of one rank, from its start to its end or abort.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl_communicator.hpp"
#include "nccl_last_word.hpp"
#include "waited_time.hpp"

namespace tutti {

class NcclJob;

/// A communicator and its duplicates, of the same ranks: where one cannot go on, no other can.
struct NcclFamily {
    std::vector<NcclJob*> members;
    std::vector<std::weak_ptr<std::function<void()>>> before_abort;
    NcclLastWord last_word;
};

/// What a communicator and its transfers share; the last of them ends NCCL's.
class NcclJob {
  public:
    /// bootstrap: outlives what is left of the job, to end the process.
    NcclJob(std::shared_ptr<NcclApi> api, std::shared_ptr<GpuSideStream> stream,
            std::shared_ptr<Communicator> bootstrap, NcclSettings settings,
            std::shared_ptr<NcclFamily> family);
    NcclJob(const NcclJob&) = delete;
    NcclJob& operator=(const NcclJob&) = delete;
    ~NcclJob();

    int rank() const { return rank_; }
    int size() const { return size_; }
    NcclApi& api() { return *api_; }
    GpuSideStream& stream() { return *stream_; }
    const std::shared_ptr<NcclApi>& shared_api() const { return api_; }
    const NcclSettings& settings() const { return settings_; }
    const std::shared_ptr<NcclFamily>& family() const { return family_; }
    Communicator& bootstrap() { return *bootstrap_; }
    NcclComm communicator() const { return communicator_; }
    WaitedTime begin_to_wait() const { return WaitedTime(now(), settings_.timeout); }
    double now() const { return settings_.now(); }
    bool broken() const { return !broken_.empty(); }
    /// NCCL did not abort: whatever waits for its kernels would wait for ever.
    bool stuck() const { return family_->last_word.stuck(); }

    /// Here NCCL's ranks wait for each other, and one that failed would be waited for until the time-out: so
    /// after each look at NCCL the ranks tell each other how it goes. Where another rank has failed, this one
    /// gives up without an error of its own.
    void open(const NcclUniqueId& id);

    void require_whole() const;

    /// Waits until NCCL has taken up the call.
    void settle(const std::string& call, NcclResult result);

    /// What went wrong since, if anything; for polls while a transfer is under way.
    void check(const std::string& call, WaitedTime& waited);

    /// Kernels that wait for peers end; so does everything behind them. False where NCCL did not end them.
    bool give_up(const std::string& reason);
    /// Where the error is there.
    void give_up(const std::string& reason, const Error& error);

    /// The error that leaves, or will leave, scopes of the family.
    void will_end_with(const Failure& failure);
    /// While an error leaves this scope.
    void leave_behind();

    /// Never waits for peers that may not come.
    void remove_window(NcclWindow window);

  private:
    NcclResult state();

    std::string place(const std::string& call) const;

    /// Gives up where a peer has ended or the time-out has passed.
    void watch_peers(const std::string& call, WaitedTime& waited);

    [[noreturn]] void fail(const std::string& call, NcclResult result);

    /// Of the computing stream; also false where that cannot say it.
    bool recording() const;

    /// Of the whole family, whose recordings go first.
    bool end();

    /// What ends the process, where NCCL does not abort.
    Failure known_failure() const;
    void leave();

    void close();

    std::shared_ptr<NcclApi> api_;
    std::shared_ptr<GpuSideStream> stream_;
    std::shared_ptr<Communicator> bootstrap_;
    NcclSettings settings_;
    std::shared_ptr<NcclFamily> family_;
    int rank_, size_;
    NcclComm communicator_ = nullptr;
    std::string broken_;  ///< why no peer can be waited for any more
};

}  // namespace tutti
