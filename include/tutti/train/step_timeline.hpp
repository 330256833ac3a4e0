#pragma once
// When what happened in one training step on one rank.

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "tutti/model/graph.hpp"
#include "tutti/model/graph_observer.hpp"

namespace tutti {

/// Seconds since the step began, on the steady clock. What did not happen is {0, 0}.
struct TimeSpan {
    double begin = 0, end = 0;
    double seconds() const { return end - begin; }
};

struct MicroBatchTimes {
    TimeSpan data;      ///< waiting for the batch, and moving it into the graph's input
    TimeSpan forward;   ///< with the loss
    TimeSpan backward;  ///< with the loss, and with issuing and polling the buckets
    /// By layer, as in Graph::report(). Layers that took turns forward lie one after the other, each as long
    /// as all its turns together.
    std::vector<TimeSpan> layer_forward, layer_backward;
};

struct BucketTimes {
    double ready = 0;   ///< its last gradient was final
    double issued = 0;  ///< its all-reduce began: when it and all buckets before it were ready
    double done = 0;    ///< this rank saw that it had ended: at the next poll, or in the wait after backward
};

/// The buckets' own plan is Reducer::buckets() at that step. Copies of a timeline made for the same graph
/// allocate nothing when they are assigned to each other.
struct StepTimeline {
    /// Memory for everything that a step of this graph can record.
    StepTimeline(const Graph& graph, std::size_t micro_batches_per_step);

    double clock = 0;    ///< the steady clock when the step began, in seconds
    double seconds = 0;  ///< of the whole step
    std::span<const MicroBatchTimes> micro_batches() const { return std::span(all_).first(used_); }
    std::vector<double> parameter_ready;  ///< by parameter, in arena order
    std::vector<BucketTimes> buckets;
    /// Waiting for the buckets and the step's sums after backward; with the updates of the buckets that were
    /// done before the last one.
    TimeSpan communication;
    double early_updates = 0;  ///< seconds of communication that these updates took
    TimeSpan optimizer;        ///< of the rest
    TimeSpan gather;           ///< with sharded state: of the parameters, after the optimizer

    /// When the last layer's backward had ended; communication after that is not hidden.
    double backward_end() const { return used_ == 0 ? 0 : all_[used_ - 1].backward.end; }
    /// Waiting that no computation hides: from the end of backward until the last bucket is done, without the
    /// updates in between, and the gathering of parameters.
    double exposed_communication() const;

  private:
    friend class StepRecorder;
    std::vector<MicroBatchTimes> all_;
    std::size_t used_ = 0;
};

/// Writes a timeline. Allocates nothing after construction. One thread.
class StepRecorder final : public GraphObserver {
  public:
    StepRecorder(const Graph& graph, std::size_t micro_batches_per_step)
        : timeline_(graph, micro_batches_per_step) {}

    /// A step begins now; what was recorded is forgotten.
    void begin_step(std::size_t buckets);
    void end_step() { timeline_.seconds = now(); }
    MicroBatchTimes& begin_micro_batch() { return timeline_.all_[timeline_.used_++]; }
    /// Since the step began.
    double now() const { return since_begin(Clock::now()); }
    using Clock = std::chrono::steady_clock;
    double since_begin(Clock::time_point time) const {
        return std::chrono::duration<double>(time - begin_).count();
    }

    StepTimeline& timeline() { return timeline_; }
    const StepTimeline& timeline() const { return timeline_; }

    void forward_begins(std::size_t) override { turn_ = now(); }
    /// Its times add up: with turns, the end lies that long behind the begin of the first.
    void forward_ends(std::size_t layer) override {
        TimeSpan& span = current().layer_forward[layer];
        if (span.end == 0) span.begin = span.end = turn_;
        span.end += now() - turn_;
    }
    void forward_took_turns(std::size_t first, std::size_t last) override;
    void backward_begins(std::size_t layer) override { current().layer_backward[layer].begin = now(); }
    void backward_ends(std::size_t layer) override { current().layer_backward[layer].end = now(); }

  private:
    MicroBatchTimes& current() { return timeline_.all_[timeline_.used_ - 1]; }

    StepTimeline timeline_;
    Clock::time_point begin_;
    double turn_ = 0;  ///< when the layer that runs forward began
};

}  // namespace tutti
