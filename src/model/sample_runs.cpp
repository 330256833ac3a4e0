#include "sample_runs.hpp"

#include <algorithm>

namespace tutti {

std::vector<SampleRun> find_sample_runs(const std::vector<GraphSpec::Node>& nodes, std::size_t element_bytes,
                                        std::int64_t max_batch, std::size_t cache_bytes) {
    const auto bytes = [&](std::int64_t elements) {
        return static_cast<std::size_t>(elements) * element_bytes;
    };
    const auto parameter_bytes = [&](std::size_t node) {
        std::size_t sum = 0;
        for (const ParameterSpec& one : nodes[node].layer->parameters()) sum += bytes(one.file_shape.count());
        return sum;
    };
    const auto sample_bytes = [&](std::size_t node) {
        std::size_t sum = bytes(nodes[node].shape.count());
        for (const NodeId input : nodes[node].inputs) sum += bytes(nodes[input].shape.count());
        return sum;
    };
    std::vector<SampleRun> runs;
    for (std::size_t first = 1; first < nodes.size();) {
        std::size_t end = first, parameters = 0, largest = 0;
        for (; end < nodes.size() && nodes[end].layer->treats_samples_apart(); ++end) {
            parameters += parameter_bytes(end);
            if (end > first && parameters > cache_bytes) break;
            largest = std::max(largest, sample_bytes(end));
        }
        const auto samples = static_cast<std::int64_t>(cache_bytes / std::max<std::size_t>(largest, 1));
        if (end - first >= 2 && samples >= 1 && samples < max_batch)
            runs.push_back({first, end - 1, samples});
        first = std::max(end, first + 1);
    }
    return runs;
}

}  // namespace tutti
