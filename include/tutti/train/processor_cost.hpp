#pragma once
// What transfers take from the computation beside them.

#include <cstddef>
#include <span>

#include "tutti/comm/communicator.hpp"
#include "tutti/comm/cost_model.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// By so many seconds a computation lasts longer beside these transfers.
struct ProcessorSample {
    double transfers = 0, bytes = 0;  ///< how many, and of all together
    double seconds = 0;
};

/// The least Σ (transfers · a + bytes · b − seconds)² with a, b ≥ 0. Nothing without samples. Pure.
ProcessorCost fit_processor_cost(std::span<const ProcessorSample> samples);

/// The measured cost times the factor with the least Σ |seconds − what it says|, a weighted median, which few
/// steps beside other programs do not move; between a half and two: steps differ by more than transfers
/// cost, so that both numbers could not be told from them, and no noise may make a transfer free or several
/// times as dear as it was measured. As measured without samples, and where that is nothing. Pure.
ProcessorCost scaled_to(const ProcessorCost& measured, std::span<const ProcessorSample> samples);

/// Bytes of the larger of two sizes whose costs are compared: most, or as halved until its bytes alone,
/// without what a transfer of nothing takes, occupy the link for 3 ms at most; but 16 · small and more, as
/// far as most is, as what bytes cost is in the difference. Pure.
std::size_t large_transfer(std::size_t most, std::size_t small, const CostModel& cost);

/// Seconds that measure_processor_cost may take, by the cost model and on ranks alike.
constexpr double processor_budget = 0.1;
/// How many times a computation of so many seconds can be timed alone and beside transfers (at most 5) after
/// one time that does not count. 0: not even once. Pure.
std::size_t processor_rounds(double seconds, double budget);

/// Times a computation alone and beside all-reduces that it polls every quarter of a millisecond, as training
/// does between and within layers: of several small ones at once, and of one of large_transfer(the arena),
/// without what other programs had of the core meanwhile (Linux, Documentation/scheduler/sched-stats.rst).
/// The difference of the shortest times of each; of that the slowest rank's. This is the "post-work-wait"
/// measurement of Doerfler and Brightwell 2006, "Measuring MPI send and receive overhead and application
/// availability in high performance network interfaces". With the transfers' own calls it holds what the
/// system does for them on this core, and what that displaces from its caches. For gradients in host memory,
/// which the computing thread sends. Takes processor_budget at most: fewer rounds, or one of both sizes or
/// none, where transfers are slow (a latency of some 15 ms and more, beside which this is little). Overwrites
/// the beginning of `arena`; nothing where that is too small, and once a signal asks any rank to stop
/// (StopSignal, looked at in each round). Collective; the same bits on every rank. `control`: another
/// communicator of the same ranks. `ops` of the arena's type.
ProcessorCost measure_processor_cost(Communicator& gradients, Communicator& control, Ops& ops,
                                     const TensorView& arena, const CostModel& cost);

}  // namespace tutti
