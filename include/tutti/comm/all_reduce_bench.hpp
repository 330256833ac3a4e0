#pragma once
// How long all-reduces take at a list of sizes, beside a plain one.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tutti/base/spread.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/comm/cost_model.hpp"
#include "tutti/device/device.hpp"

namespace tutti {

/// Times are in seconds, over the iterations; each counts with the time of the rank that took longest.
struct AllReduceRow {
    std::uint64_t bytes = 0;  ///< of the buffer on each rank, whole f32 elements
    int iterations = 0;
    Spread time{};  ///< of Communicator::all_reduce(…).wait()
    Spread bare{};  ///< of the call it is compared with; 0 without one
    /// Median over the iterations of time / bare: the two are called in turn, so that what disturbs a machine
    /// for a while disturbs both. 0 without a comparison.
    double ratio = 0;

    /// Bytes per second, of the median time.
    double algorithm_bandwidth() const { return static_cast<double>(bytes) / time.median; }
    /// The same times 2(p − 1)/p: what the slowest link carries in any all-reduce of p ranks, so that figures
    /// compare across numbers of ranks and with the hardware (nccl-tests, doc/PERFORMANCE.md).
    double bus_bandwidth(int ranks) const { return algorithm_bandwidth() * 2 * (ranks - 1) / ranks; }
};

struct AllReduceBench {
    std::vector<std::uint64_t> sizes;  ///< bytes; rounded up to whole f32 elements
    int iterations = 0;                ///< 0: 10 to 500, fewer for larger sizes
    int warmup = 5;                    ///< iterations that are not counted
    /// Whose memory is reduced, as ReducedBuffer takes it; null: the host's. Values come from the host and
    /// are checked there, outside of the measured time.
    Device* device = nullptr;
    /// Of the same ranks, for host memory: with a device, whose communicator cannot carry what the ranks tell
    /// each other. Null: the measured one.
    Communicator* control = nullptr;
    /// A plain all-reduce (sum, in place, host memory) over the same ranks, to compare with. Optional.
    std::function<void(std::span<float>)> bare;
    /// Whether the communicator rounds sums to bf16 on their way (comm/compression.hpp). Bytes are those of
    /// f32 all the same.
    bool compressed = false;
    /// Whether this rank was asked to stop; asked between iterations. Optional.
    std::function<bool()> stop;
    /// Called after each size. Optional.
    std::function<void(const AllReduceRow&)> done;
};

/// Collective; the rows are the same on every rank. Buffers hold whole numbers whose sums are exact in f32,
/// and each result of all_reduce is compared with them, element for element: a wrong one throws AgreedError
/// (exit 1) with size, rank and element. If any rank was asked to stop, every rank throws AgreedError (exit
/// 1). Throws UsageError for fewer iterations or sizes than make sense, and AgreedError (exit 2) without
/// memory for a size.
std::vector<AllReduceRow> bench_all_reduce(Communicator& communicator, const AllReduceBench& bench);

/// Median times.
std::vector<CostSample> cost_samples(std::span<const AllReduceRow> rows);
/// Median time against bytes. Of one rank: the default model, which costs nothing.
CostModel fit_cost(std::span<const AllReduceRow> rows, int ranks);

}  // namespace tutti
