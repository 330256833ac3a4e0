#pragma once
// A NCCL that moves data through another communicator, and fails on demand.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nccl_api.hpp"

namespace tutti::test {

/// What one rank's NCCL shall do besides its work.
struct NcclScript {
    int polls = 0;                                ///< how many times a call stays in progress
    std::map<std::string, NcclResult> answers{};  ///< of calls by name ("init_rank"), instead of doing them
    NcclResult async = NcclResult::success;       ///< what async_error says once a collective was issued
    bool stalls = false;                          ///< collectives never end
    bool windows = true;                          ///< knows windows
    std::function<void()> abort_waits{};          ///< called by abort, on whatever thread calls that
};

/// One per rank. `data` carries the collectives, on which the ranks must meet in init_rank, too.
class FakeNccl final : public NcclApi {
  public:
    FakeNccl(Communicator& data, NcclScript script) : data_(data), script_(std::move(script)) {}
    FakeNccl(const FakeNccl&) = delete;
    FakeNccl& operator=(const FakeNccl&) = delete;
    ~FakeNccl() override;

    /// The calls, in order, without the polls; and what broke NCCL's rules.
    const std::vector<std::string>& calls() const { return calls_; }
    const std::vector<std::string>& violations() const { return violations_; }

    std::string version() const override { return "0.0.0"; }
    NcclResult unique_id(NcclUniqueId& id) override;
    NcclResult init_rank(NcclComm& communicator, int ranks, const NcclUniqueId& id, int rank) override;
    NcclResult async_error(NcclComm communicator, NcclResult& state) override;
    NcclResult finalize(NcclComm communicator) override;
    NcclResult destroy(NcclComm communicator) override;
    NcclResult abort(NcclComm communicator) override;
    std::string error_text(NcclResult result, NcclComm communicator) override;
    NcclResult all_reduce(const TensorView& buffer, ReduceOp op, NcclComm communicator,
                          GpuStream stream) override;
    NcclResult reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op,
                              NcclComm communicator, GpuStream stream) override;
    NcclResult all_gather(const TensorView& input, const TensorView& output, NcclComm communicator,
                          GpuStream stream) override;
    NcclResult broadcast(const TensorView& buffer, int root, NcclComm communicator,
                         GpuStream stream) override;
    NcclResult all_to_all(const TensorView& input, const TensorView& output, int ranks, NcclComm communicator,
                          GpuStream stream) override;
    NcclResult exchange(const TensorView& send, const TensorView& receive, int peer, NcclComm communicator,
                        GpuStream stream) override;
    NcclResult allocate(std::byte*& memory, std::size_t bytes) override;
    NcclResult release(std::byte* memory) override;
    NcclResult register_window(NcclComm communicator, std::byte* memory, std::size_t bytes,
                               NcclWindow& window) override;
    NcclResult deregister_window(NcclComm communicator, NcclWindow window) override;

  private:
    struct Comm {
        std::shared_ptr<Communicator> data;
        std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
        int polls = 0;            ///< how often it is still in progress
        std::string in_progress;  ///< the call
        bool issued = false;      ///< a collective
        bool finalized = false;
        std::set<NcclWindow> windows;
        NcclWindow window = nullptr;        // made last
        NcclWindow* made_window = nullptr;  // where it is to be written
    };
    Comm& called(const std::string& name, NcclComm communicator);
    NcclResult answer(const std::string& name, Comm& comm);
    NcclResult collective(const std::string& name, NcclComm communicator, GpuStream stream,
                          const std::function<Work(Communicator&)>& begin);

    Communicator& data_;
    NcclScript script_;
    std::vector<std::unique_ptr<Comm>> communicators_;
    std::mutex aborting_;  // several at a time, while nothing else is called
    std::vector<std::string> calls_, violations_;
    std::set<std::byte*> memory_;
    int next_window_ = 0;
};

}  // namespace tutti::test
