#include "tutti/train/bucket_plan.hpp"

namespace tutti {

std::vector<Bucket> plan_buckets(std::span<const ParameterSlice> parameters,
                                 const std::vector<bool>& layer_ends, const BucketOptions& options) {
    std::vector<Bucket> buckets;
    std::size_t begin = 0, bytes = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        bytes += static_cast<std::size_t>(parameters[i].count) * options.element_bytes;
        bool closed = i + 1 == parameters.size();
        if (options.policy == BucketPolicy::per_layer)
            closed = closed || layer_ends[i];
        else if (options.policy == BucketPolicy::ddp)
            closed = closed || bytes >= (buckets.empty() ? options.first_limit : options.limit);
        if (!closed) continue;
        const std::int64_t offset = parameters[begin].offset;
        buckets.push_back({begin, i, offset, parameters[i].offset + parameters[i].count - offset});
        begin = i + 1;
        bytes = 0;
    }
    return buckets;
}

std::vector<Bucket> plan_buckets(const Graph& graph, const DistributedConfig& config) {
    const auto& parameters = graph.parameters();
    const auto layer_of = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
    std::vector<ParameterSlice> slices;
    std::vector<bool> ends;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        slices.push_back({parameters[i].offset, parameters[i].count});
        ends.push_back(i + 1 == parameters.size() ||
                       layer_of(parameters[i].name) != layer_of(parameters[i + 1].name));
    }
    const auto bytes = [](double mebibytes) { return static_cast<std::size_t>(mebibytes * 1048576.0); };
    return plan_buckets(slices, ends,
                        {config.bucket_policy, size_of(graph.compute()), bytes(config.bucket_mb),
                         bytes(config.first_bucket_mb)});
}

}  // namespace tutti
