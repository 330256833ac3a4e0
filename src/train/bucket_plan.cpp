#include "tutti/train/bucket_plan.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

Bucket bucket_of(std::span<const ParameterSlice> parameters, std::size_t first, std::size_t last) {
    const std::int64_t offset = parameters[first].offset;
    return {first, last, offset, parameters[last].offset + parameters[last].count - offset};
}

double bytes_of(const Bucket& bucket, const BucketTiming& timing) {
    return static_cast<double>(bucket.count) * static_cast<double>(timing.element_bytes);
}

/// Calls visit(begin, end, taken) with each transfer's time on the link and its processor time.
template <class Visit>
void for_transfers(std::span<const Bucket> buckets, const BucketTiming& timing, const Visit& visit) {
    double link = 0, ready = 0, all_taken = 0;
    for (const Bucket& bucket : buckets) {
        for (std::size_t p = bucket.first; p <= bucket.last; ++p) ready = std::max(ready, timing.ready[p]);
        const double begin = std::max(link, ready + all_taken), bytes = bytes_of(bucket, timing);
        link = begin + timing.cost.occupied_beside(bytes);
        all_taken += timing.cost.taken(bytes);
        visit(begin, link, timing.cost.taken(bytes));
    }
}

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const ParameterSlice> parameters,
                                 const std::vector<bool>& layer_ends, const BucketOptions& options) {
    std::vector<Bucket> buckets;
    std::size_t begin = 0, bytes = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        bytes += static_cast<std::size_t>(parameters[i].count) * options.element_bytes;
        bool closed = i + 1 == parameters.size();
        if (options.policy == BucketPolicy::per_layer)
            closed = closed || layer_ends[i];
        else if (options.policy != BucketPolicy::single)
            closed = closed || bytes >= (buckets.empty() ? options.first_limit : options.limit);
        if (!closed) continue;
        buckets.push_back(bucket_of(parameters, begin, i));
        begin = i + 1;
        bytes = 0;
    }
    return buckets;
}

double finish_time(std::span<const Bucket> buckets, const BucketTiming& timing) {
    double done = 0;
    for_transfers(buckets, timing, [&](double, double end, double) { done = end; });
    return buckets.empty() ? 0 : done + timing.cost.latency();
}

double stretched(double seconds, std::span<const Bucket> buckets, const BucketTiming& timing) {
    double now = seconds;  // when it is through if nothing more disturbs it
    for_transfers(buckets, timing, [&](double begin, double end, double taken) {
        if (taken == 0 || now <= begin) return;
        // What is left when the transfer begins goes on at this speed until the transfer ends.
        const double left = now - begin, speed = 1 - taken / (end - begin);
        now = left >= end - begin - taken ? now + taken : begin + left / speed;
    });
    return now;
}

std::vector<Bucket> plan_by_cost(std::span<const ParameterSlice> parameters,
                                 const std::vector<bool>& layer_ends, const BucketTiming& timing) {
    if (parameters.empty()) return {};
    // Cut c stands before parameter begins[c]; all gradients before it are ready at ready[c].
    std::vector<std::size_t> begins{0};
    std::vector<double> ready{0};
    double latest = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
        latest = std::max(latest, timing.ready[p]);
        if (!layer_ends[p] && p + 1 < parameters.size()) continue;
        begins.push_back(p + 1);
        ready.push_back(latest);
    }
    const std::size_t cuts = begins.size(), last = cuts - 1;
    std::vector<double> transfer(cuts * cuts);  // from cut (row) to cut
    // By cut: taken by the bytes before it. The gaps between parameters are part of a bucket only inside it.
    std::vector<double> taken_before(cuts, 0.0);
    for (std::size_t from = 0; from < cuts; ++from)
        for (std::size_t to = from + 1; to < cuts; ++to) {
            const double bytes = bytes_of(bucket_of(parameters, begins[from], begins[to] - 1), timing);
            transfer[from * cuts + to] = timing.cost.occupied_beside(bytes);
            if (from == 0) taken_before[to] = bytes * timing.cost.processor().seconds_per_byte;
        }

    // done[k][c]: when k buckets that end at cut c can be done; from[k][c]: the cut where the last begins.
    constexpr double never = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> done(cuts, std::vector<double>(cuts, never));
    std::vector<std::vector<std::size_t>> from(cuts, std::vector<std::size_t>(cuts, 0));
    done[0][0] = 0;
    std::size_t best = 1;
    for (std::size_t k = 1; k < cuts; ++k) {
        for (std::size_t to = k; to < cuts; ++to)
            for (std::size_t before = k - 1; before < to; ++before) {
                const double taken =
                    static_cast<double>(k - 1) * timing.cost.processor().per_transfer + taken_before[before];
                const double time =
                    std::max(done[k - 1][before], ready[to] + taken) + transfer[before * cuts + to];
                if (time >= done[k][to]) continue;
                done[k][to] = time;
                from[k][to] = before;
            }
        if (done[k][last] < done[best][last]) best = k;
    }
    std::vector<Bucket> plan;
    for (std::size_t k = best, to = last; k > 0; to = from[k--][to])
        plan.push_back(bucket_of(parameters, begins[from[k][to]], begins[to] - 1));
    std::ranges::reverse(plan);
    return plan;
}

std::vector<ParameterSlice> parameter_slices(const Graph& graph) {
    std::vector<ParameterSlice> slices;
    for (const Parameter& parameter : graph.parameters())
        slices.push_back({parameter.offset, parameter.count});
    return slices;
}

std::vector<bool> layer_ends(const Graph& graph) {
    std::vector<std::string> names;
    for (const Parameter& parameter : graph.parameters()) names.push_back(parameter.name);
    return layer_ends(names);
}

std::vector<bool> layer_ends(std::span<const std::string> names) {
    const auto layer_of = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
    std::vector<bool> ends;
    for (std::size_t i = 0; i < names.size(); ++i)
        ends.push_back(i + 1 == names.size() || layer_of(names[i]) != layer_of(names[i + 1]));
    return ends;
}

std::vector<Bucket> plan_from_ends(std::span<const ParameterSlice> parameters,
                                   std::span<const std::size_t> ends) {
    std::vector<Bucket> plan;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
        if (end < begin || end >= parameters.size())
            throw DataError("a bucket plan ends a bucket with parameter " + std::to_string(end) + " after " +
                            std::to_string(begin) + " of " + std::to_string(parameters.size()));
        plan.push_back(bucket_of(parameters, begin, end));
        begin = end + 1;
    }
    if (begin != parameters.size())
        throw DataError("a bucket plan covers " + std::to_string(begin) + " of " +
                        std::to_string(parameters.size()) + " parameters");
    return plan;
}

std::vector<Bucket> plan_buckets(const Graph& graph, const DistributedConfig& config) {
    const auto bytes = [](double mebibytes) { return static_cast<std::size_t>(mebibytes * mebibyte); };
    return plan_buckets(parameter_slices(graph), layer_ends(graph),
                        {config.bucket_policy, size_of(graph.compute()), bytes(config.bucket_mb),
                         bytes(config.first_bucket_mb)});
}

}  // namespace tutti
