#pragma once
// Real training steps for measurements.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/train/reducer.hpp"
#include "tutti/train/step_timeline.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti {

/// Data, forward, backward, reduction and optimizer exactly as Trainer::run does them, but nothing is
/// evaluated, reported or saved; epochs begin again when they end. Collective: every rank makes the same
/// calls with the same arguments. Errors that all ranks share are thrown as AgreedError.
class StepBench {
  public:
    /// job.directory and job.val are not used. Begins with the weights that a run would begin with. inside:
    /// timelines hold layers and buckets, and no step runs as a CUDA graph; else they do only of steps that
    /// do not.
    explicit StepBench(const TrainingJob& job, bool inside = true);
    ~StepBench();

    const Graph& graph() const;
    const std::vector<Bucket>& buckets() const;
    /// From the next step on, the same on every rank.
    void set_buckets(std::vector<Bucket> buckets, std::vector<std::size_t> order = {});
    /// Whether buckets stay on the network during the next step's forward; at first as by the config. True
    /// only where they can (TrainStep::obstacle_across_steps).
    bool spreads_across_steps() const;
    void spread_across_steps(bool spread);
    /// As training does with a plan that it does not measure: where buckets may stay on the network, some
    /// steps tell in which order they go out, and with distributed.across_steps auto whether that pays; if
    /// not, it is turned off. Throws as run does.
    void choose_schedule();

    /// An update of this rank's part of the parameters: it reads the gradients, and reads and writes weights
    /// and the optimizer's state. What clipping and a moving average do besides is not counted.
    struct UpdateBytes {
        std::int64_t moved = 0;   ///< read and written
        std::int64_t memory = 0;  ///< in which these lie
        DType dtype = DType::f32;
    };
    UpdateBytes update_bytes() const;

    /// Steps whose gradients were a CUDA graph; and why there are none, where there is more to say than that
    /// the graph was not asked for or the device has none.
    std::int64_t graph_steps() const;
    const std::string& why_no_graph() const;

    /// Timelines hold no processor time of this thread (transfer_cpu, off_core), which takes system calls.
    void leave_out_processor_time();
    /// An empty timeline with memory for this bench's steps.
    StepTimeline make_timeline() const;
    /// One step per timeline, which is overwritten; across steps after one that is not counted, so that each
    /// counted one waits for the buckets of a step before it. Nothing is left on the network. Returns how
    /// many steps it made. Throws AgreedError, PeerError; RunError is agreed, too (a loss that is not
    /// finite).
    std::size_t run(std::span<StepTimeline> steps);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
