#pragma once
// Where the gradient arena is cut into buckets: sizes in, plan out.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tutti/base/config.hpp"
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
std::vector<Bucket> plan_buckets(std::span<const ParameterSlice> parameters,
                                 const std::vector<bool>& layer_ends, const BucketOptions& options);

/// The plan of a graph under a config: policy and limits from `distributed`.
std::vector<Bucket> plan_buckets(const Graph& graph, const DistributedConfig& config);

}  // namespace tutti
