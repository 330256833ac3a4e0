#include "transfer_costs.hpp"

#include <algorithm>
#include <numeric>

#include "tutti/base/stop_signal.hpp"
#include "tutti/comm/cost_sizes.hpp"
#include "tutti/comm/stop_vote.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {
namespace {

// Enough for the least of the fluctuations, and short: the steps are what is asked for.
constexpr int all_reduce_iterations = 15;
constexpr std::uint64_t smallest_all_reduce = 4096;
constexpr int size_factor = 4;
constexpr int most_additions = 4;  // of sizes in between

AllReduceBench bench_of(const TransferMeasurement& given) {
    AllReduceBench bench;
    // Of one size nothing could tell what a transfer costs and what its bytes do.
    bench.sizes.push_back(sizeof(float));
    const std::uint64_t all = given.arena.bytes();
    for (std::uint64_t bytes = smallest_all_reduce; bytes < all; bytes *= size_factor)
        bench.sizes.push_back(bytes);
    bench.sizes.push_back(std::max(all, smallest_all_reduce));
    bench.iterations = all_reduce_iterations;
    // The memory that training reduces, on its way.
    if (given.on_gpu) {
        bench.device = &given.device;
        bench.control = &given.control;
    }
    bench.compressed = given.compressed;
    bench.stop = [] { return StopSignal::pending() != 0; };
    return bench;
}

/// Where no model is right about the sizes until now: some in between, for about as long as those took.
void measure_between(const TransferMeasurement& given, AllReduceBench& bench,
                     std::vector<AllReduceRow>& rows) {
    const auto seconds = [&](double sum, const AllReduceRow& row) {
        return sum + row.time.median * (row.iterations + bench.warmup);
    };
    double left = std::accumulate(rows.begin(), rows.end(), 0.0, seconds);
    for (int additions = 0; additions < most_additions; ++additions) {
        const double longest = std::max(left, 0.0) / (2 * (bench.iterations + bench.warmup));
        bench.sizes =
            agree_on_numbers(sizes_to_add(cost_samples(rows), sizeof(float), longest), given.control);
        if (bench.sizes.empty()) break;
        const auto between = bench_all_reduce(given.gradients, bench);
        left -= std::accumulate(between.begin(), between.end(), 0.0, seconds);
        rows.insert(rows.end(), between.begin(), between.end());
    }
    std::ranges::sort(rows, {}, &AllReduceRow::bytes);
}

}  // namespace

TransferCosts measure_transfers(const TransferMeasurement& given) {
    TransferCosts costs;
    AllReduceBench bench = bench_of(given);
    given.log.progress("all-reduce against size");
    costs.rows = bench_all_reduce(given.gradients, bench);
    measure_between(given, bench, costs.rows);
    Ops& ops = given.device.ops(given.arena.dtype);
    costs.cost = fit_cost(costs.rows, given.gradients.size())
                     .with_latency(measure_latency(given.gradients, given.control, ops, given.arena));
    // A GPU's computation is not that of the thread that sends, and timed waits wait on.
    if (!given.on_gpu && given.computes)
        costs.processor =
            measure_processor_cost(given.gradients, given.control, ops, given.arena, costs.cost);
    end_if_stopped(given.control, "measuring what transfers take from the computation");
    costs.least = std::min(costs.rows.back().time.min,
                           measure_arena_in_parts(given.gradients, given.control, ops, given.arena));
    end_if_stopped(given.control, "measuring all gradients in parts");
    costs.empty_transfer = costs.cost.seconds(0);
    // The model may make it cheaper than any is. Only ranks on CPUs are across steps.
    if (given.across)
        costs.empty_transfer =
            std::max(costs.empty_transfer, measure_small_all_reduce(given.gradients, given.control));
    return costs;
}

}  // namespace tutti
