#pragma once
// Where the gradient arena is cut into buckets: sizes in, plan out.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/comm/cost_model.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {

/// A parameter's place in the arena, in elements.
struct ParameterSlice {
    std::int64_t offset = 0, count = 0;
};

/// Parameters [first, last] (arena order) and the contiguous slice that they and the gaps between them take.
struct Bucket {
    std::size_t first = 0, last = 0;
    std::int64_t offset = 0, count = 0;
    friend bool operator==(const Bucket&, const Bucket&) = default;
};

struct BucketOptions {
    BucketPolicy policy = BucketPolicy::ddp;
    std::size_t element_bytes = 4;
    std::size_t limit = 25u << 20;       ///< bytes
    std::size_t first_limit = 1u << 20;  ///< bytes, of the bucket that backward fills first
};

/// Pure. `parameters` in arena order, which is the order in which backward finishes them.
///   ddp: PyTorch's rules (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size):
///   append a
///        parameter, close the bucket when its parameters' bytes reach the limit; never split one; the first
///        bucket has a limit of its own.
///   single: one bucket. per_layer: see `layer_ends`: a bucket ends with each parameter for which it is true.
/// cost_model and automatic need measurements: until there are some, they are planned as ddp.
std::vector<Bucket> plan_buckets(std::span<const ParameterSlice> parameters,
                                 const std::vector<bool>& layer_ends, const BucketOptions& options);

/// What the time of a schedule follows from. ready: by parameter, when its gradient is final, in seconds from
/// any beginning that they share with each other.
struct BucketTiming {
    std::span<const double> ready;
    const CostModel& cost;
    std::size_t element_bytes = 4;
};

/// When the last bucket is done: c_k = max(c_{k−1}, r_k + P_{k−1}) + T(S_k), and at the end λ, where r_k is
/// when the gradients of bucket k and of those before it are ready in a backward that nothing disturbs, S_k
/// its bytes, T what the cost model says that a transfer occupies beside a computation, λ its latency, and
/// P_k = p(S_1) + … + p(S_k) the processor time that transfers have taken from backward by then
/// (CostModel::taken): what comes after them is ready that much later. One transfer after the other, beside
/// the computation. Pure; 0 without buckets.
double finish_time(std::span<const Bucket> buckets, const BucketTiming& timing);

/// When a computation that takes `seconds` undisturbed, from the beginning of backward on, is through: a
/// transfer that is under way slows it down evenly, to 1 − p(S_k) / T(S_k) of its speed. Pure.
double stretched(double seconds, std::span<const Bucket> buckets, const BucketTiming& timing);

/// The cut at layer ends with the least finish_time, of those with the same time one with the fewest buckets:
/// what backward cannot hide is then smallest. A dynamic programme over L possible cuts and the number of
/// buckets, O(L³) additions: c_k never falls when c_{k−1} grows, and P_k depends on k and the cut alone, so
/// the best way to a cut is part of the best way beyond it. Pure.
std::vector<Bucket> plan_by_cost(std::span<const ParameterSlice> parameters,
                                 const std::vector<bool>& layer_ends, const BucketTiming& timing);

/// What the functions above want to know of a graph.
std::vector<ParameterSlice> parameter_slices(const Graph& graph);
std::vector<bool> layer_ends(const Graph& graph);
/// The same from the parameters' names, in arena order: "conv1.weight" and "conv1.bias" are of one layer.
std::vector<bool> layer_ends(std::span<const std::string> names);

/// The plan whose buckets end with these parameters (ascending, the last one included). Throws DataError when
/// they are no such list.
std::vector<Bucket> plan_from_ends(std::span<const ParameterSlice> parameters,
                                   std::span<const std::size_t> ends);

/// The plan of a graph under a config before anything is measured: policy and limits from `distributed`.
std::vector<Bucket> plan_buckets(const Graph& graph, const DistributedConfig& config);

}  // namespace tutti
