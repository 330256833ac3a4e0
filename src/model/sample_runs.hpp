#pragma once
// Which layers forward takes together, for some samples at a time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// Nodes `first` to `last` run one after the other for `samples` samples, then for the next ones: what one
/// layer writes is still in the cache when the next reads it.
struct SampleRun {
    std::size_t first, last;
    std::int64_t samples;
};

/// The runs of neighbours that treat samples apart (Layer::treats_samples_apart) in which a layer's input and
/// output of `max_batch` samples exceed `cache_bytes`. A run's parameters do not: they are read anew for each
/// part of the batch. No bytes, no runs.
std::vector<SampleRun> find_sample_runs(const std::vector<GraphSpec::Node>& nodes, std::size_t element_bytes,
                                        std::int64_t max_batch, std::size_t cache_bytes);

}  // namespace tutti
