#pragma once
// The gradients of a step as recorded work of the device: forward with the loss, and backward with the
// transfers of the buckets, each one call of the host (on a GPU: one CUDA graph).
//
// Two halves, because the sums of the losses go to the other ranks while backward computes; and the update
// stays with the host, which must know first that the loss is finite, that no rank failed and by how much the
// gradients are clipped. What changes from step to step is told before each run (RunValues); where the input
// lies, how many samples there are and how the buckets are cut must be as they were.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "step_sums.hpp"
#include "tutti/base/config.hpp"
#include "tutti/base/log.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/device/device.hpp"
#include "tutti/device/recorder.hpp"
#include "tutti/model/loss.hpp"

namespace tutti {

/// A recorded transfer and one that a rank issues itself do not meet. So all ranks record at the same steps
/// (NCCL may register memory with the peers then): each says in the step's sums that it wants to, and all do
/// in the steps that follow. Before a step they agree through host memory whether all run their recordings,
/// all record, or none does either; after recording, whether all could, and where one could not for whatever
/// reason of its own, none records again. An error of the transfers themselves, or a lost peer, ends the run
/// instead, as it does in any other step. One thread.
class StepGraph {
  public:
    /// statistics: the way of the batch statistics between ranks; null: nothing goes there. control: of host
    /// memory. When transfers fail, the recordings are gone before they are ended
    /// (Communicator::before_abort). Throws UsageError where run.cuda_graph is true and there is a reason
    /// against it.
    StepGraph(const Config& config, Device& device, Communicator& gradients, Communicator* statistics,
              Communicator& control, Log& log);

    /// Why no step can be recorded; empty where steps may be, and where nobody wants it (run.cuda_graph
    /// false, the CPU).
    const std::string& reason() const { return reason_; }
    /// Steps that ran as a recording.
    std::int64_t steps() const { return steps_; }

    /// What the addresses in a recording depend on.
    struct Key {
        const std::byte *input = nullptr, *labels = nullptr;
        std::uint64_t bucket_plans = 0;
        friend bool operator==(const Key&, const Key&) = default;
    };
    /// whole: a step that is like all others: one micro-batch, the whole batch on each rank, nothing timed
    /// inside; the same on all ranks. mine: that this rank has its samples. True: it runs as a recording, or
    /// is to be recorded now; false: the caller runs it itself; both on all ranks. Collective where `whole`
    /// is true.
    bool takes(bool whole, bool mine, const Key& key);

    struct Halves {
        std::function<void()> forward;    ///< ends with Loss::issue_forward
        std::function<void()> backward;   ///< waits for the transfers it issued
        std::function<void()> forget;     ///< after a failed recording: what both have left in host memory
        std::function<void()> meanwhile;  ///< for the host to do while the device computes; not recorded
    };
    /// After takes(): issues the step, which it records first where it must, and waits for `sums` of the
    /// loss. False: it could not be recorded on every rank, and nothing was issued on any.
    /// Throws the error of a transfer that failed while it was recorded.
    bool run(const RunValues& values, const Halves& halves, const TensorView& sums);
    LossSums loss() const;
    /// Waits until backward has ended where transfers are part of it, and notices failed peers.
    void wait_for_transfers();

    /// Before the step's sums go out, and when they are there.
    void tell(StepSums& sums) const { sums.set_graph(wanted_, impossible_); }
    void hear(const StepSums& sums);

  private:
    struct Entry {
        Key key;
        std::unique_ptr<RecordedWork> forward, backward;
        bool current() const { return forward->current() && backward->current(); }
    };
    /// What any rank said.
    struct Said {
        bool cannot = false, lacks = false;
    };
    Said ask(const Said& mine);
    Entry* find(const Key& key);
    bool record(const Halves& halves);
    void give_up(const std::string& reason);
    void wait_for_loss();

    Log& log_;
    Communicator& control_;
    WorkRecorder* const recorder_;
    std::vector<Communicator*> transfers_;
    std::vector<Entry> entries_;
    const std::shared_ptr<std::function<void()>> release_ =
        std::make_shared<std::function<void()>>([this] { entries_.clear(); });
    Key key_;  // of the step under way
    bool records_ = false;
    std::int64_t steps_ = 0;
    std::int64_t seen_ = 0;        // whole steps that the caller ran
    std::int64_t may_record_ = 0;  // whole steps in which what is missing is recorded
    bool wanted_ = false, impossible_ = false, announced_ = false;
    std::string reason_;
    std::vector<Work> following_;
};

}  // namespace tutti
