#pragma once
// `run.trace`: what all ranks did in the first updates of a run, in one file for Perfetto or
// chrome://tracing.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clock_alignment.hpp"
#include "tutti/base/log.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/step_timeline.hpp"

namespace tutti {

/// Keeps the time lines of up to `steps` updates in memory that is there from the beginning, and writes them
/// in the Trace Event Format ("Trace Event Format", Google, 2016): a process per rank, a thread of slices for
/// its computation (step > data, forward > layers, backward > layers, communication, optimizer), and for each
/// bucket a row of asynchronous slices, ready to done, in which "all-reduce" begins when it was issued. Times
/// are rank 0's.
class Trace {
  public:
    /// Collective: the clocks are compared.
    Trace(Communicator& communicator, const Graph& graph, std::size_t micro_batches_per_step,
          std::size_t steps);

    bool full() const { return used_ == steps_.size(); }
    /// One more update: its number, and the plan that its buckets followed.
    void add(const StepTimeline& timeline, std::int64_t number, std::span<const Bucket> plan);
    /// Compares the clocks again; rank 0 writes `path`, which is complete or as it was, and what stops it is
    /// a warning. Collective.
    void write(const std::string& path, Log& log) const;

  private:
    struct Step {
        StepTimeline timeline;
        std::int64_t number = 0;
        std::size_t plan = 0;
    };
    /// This rank's events, each with a comma and a newline before it.
    std::string events(const AlignedClock& clock) const;

    Communicator& communicator_;
    const Graph& graph_;
    ClockEstimate begin_;
    std::vector<Step> steps_;
    std::size_t used_ = 0;
    std::vector<std::vector<Bucket>> plans_;  // each that was used, once
};

}  // namespace tutti
