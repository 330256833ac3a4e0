#pragma once
// What transfers take from the computation beside them.

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

/// Times a computation alone and beside all-reduces that it polls every quarter of a millisecond, as training
/// does between and within layers: of several small ones at once, and of one as large as the arena (or as
/// takes a hundredth of a second by `cost`), without what other programs had of the core meanwhile (Linux,
/// Documentation/scheduler/sched-stats.rst). The difference of the shortest times of each; of that the
/// slowest rank's. This is the "post-work-wait" measurement of
/// Doerfler and Brightwell 2006, "Measuring MPI send and receive overhead and application availability in
/// high performance network interfaces". With the transfers' own calls it holds what the system does for them
/// on this core, and what that displaces from its caches. For gradients in host memory, which the computing
/// thread sends. Overwrites the beginning of `arena`; nothing where that is too small. Collective; the same
/// bits on every rank. `control`: another communicator of the same ranks. `ops` of the arena's type.
ProcessorCost measure_processor_cost(Communicator& gradients, Communicator& control, Ops& ops,
                                     const TensorView& arena, const CostModel& cost);

}  // namespace tutti
