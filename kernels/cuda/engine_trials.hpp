#pragma once
// Which of several engines for the same work is the fastest, measured on the GPU.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device_memory.hpp"
#include "streams.hpp"

namespace tutti::cuda {

/// What the trials so far have found.
struct TrialCounts {
    int problems = 0;    ///< that had more than one engine
    int others = 0;      ///< of these, where another one than the library's first is taken
    double seconds = 0;  ///< that the host has spent on them
    double saved = 0;    ///< seconds of the GPU, by one run of each problem
    friend bool operator==(const TrialCounts&, const TrialCounts&) = default;
};

/// Whether an engine that took `seconds` is to be taken in place of the library's first choice: it must be
/// faster by more than measurements scatter and than two steps of the clock of events (0.5 µs), else runs
/// would differ in their engines, and so in their rounding, for nothing.
bool clearly_faster(double seconds, double first);

/// Trials of a context's stream, by its thread.
class EngineTrials {
  public:
    /// Of what a library's heuristic names for a problem, best first: engines, and mostly one of them with
    /// other tiles. cuDNN 9.19 builds 16 for a convolution of a ResNet in 1 to 30 ms.
    static constexpr std::size_t most_engines = 16;

    /// `notice` is told what the trials found, and once when memory for them is missing.
    EngineTrials(Stream stream, std::function<void(const std::string&)> notice);

    struct Problem {
        std::string name;     ///< for errors
        std::size_t engines;  ///< at least 2
        std::size_t memory;   ///< bytes that a run may use
        /// Issues the work by engine `engine`, with `memory` for it alone.
        std::function<void(std::size_t engine, std::byte* memory)> run;
    };

    /// The fastest engine, by the shortest of some runs each, in turn, with nothing of their operands in the
    /// second-level cache. The library's first, 0, stays where no other is clearly faster, twice, and where
    /// there is no memory for trials: the problem's, and as much as the cache is emptied with. An engine
    /// whose run is refused (GpuError) is out of it. Waits for the stream. Throws RunError, with the engine,
    /// when the GPU dies of one.
    std::size_t fastest(const Problem& problem);

    const TrialCounts& counts() const { return counts_; }
    /// Notices what the trials have found when none were made since the last call, and some since it was
    /// told.
    void tell_when_over();

  private:
    /// A trial's: what engines use, and what the cache is emptied with.
    struct Memory {
        std::byte *data, *flushed;
        int fill = 0;
    };

    std::unique_ptr<DeviceMemory> memory_for_trials(std::size_t bytes);
    /// Infinity where the run was refused.
    double seconds_of(std::size_t engine, const Problem& problem, Memory& memory);
    std::vector<double> shortest_of(const std::vector<std::size_t>& engines, const Problem& problem,
                                    Memory& memory);

    Stream stream_;
    std::function<void(const std::string&)> notice_;
    std::size_t flushed_bytes_;
    Event start_{EventTiming::on}, end_{EventTiming::on};
    bool lacks_memory_ = false;
    TrialCounts counts_, seen_, told_;
};

}  // namespace tutti::cuda
