#pragma once
// What `distributed.bucket_policy: auto` has learnt, kept for later runs in a small JSON file.

#include <optional>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/comm/cost_model.hpp"
#include "tutti/device/device.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {

/// A plan that was tried, and how long a step took with it.
struct BucketTrial {
    std::string name;               ///< "cost_model", "ddp 5 MiB", "single"
    std::vector<std::size_t> ends;  ///< the last parameter of each bucket, in arena order
    /// When backward and its transfers are through, in seconds after its beginning; across steps: a step.
    double predicted = 0;
    double step = 0;  ///< median of the real steps, seconds; 0: not tried
    /// Of issue (Reducer::replan), across steps; empty: the transfers end with their step, in the plan's
    /// order.
    std::vector<std::size_t> order{};

    /// Whether its buckets stay on the network during the next step's forward.
    bool across_steps() const { return !order.empty(); }
    bool in_pieces() const { return order.size() > ends.size(); }
    /// The same buckets in the same order and pieces, under the same schedule.
    bool sends_alike(const BucketTrial& other) const { return ends == other.ends && order == other.order; }
};

struct BucketProfile {
    std::string key = "{}";  ///< what it holds for: one JSON object
    BucketTrial chosen;
    std::vector<BucketTrial> trials;
    CostModel cost;             ///< of the all-reduce
    double backward_end = 0;    ///< seconds after the beginning of backward
    std::vector<double> ready;  ///< by parameter, likewise
};

/// The schedules that a measured choice is among: "within steps", where transfers end with their step in any
/// case, "across steps", or "across steps where it pays", which is decided by the measurement.
std::string schedules_tried(const Config& config, bool across);

/// One JSON object that names all that decides about step and transfer times, and which plans are tried:
/// shapes of the model, type of the arithmetic and of its products, batch, accumulation, processors, ranks,
/// ranks by host, backend and path of the all-reduces, what the environment says about transports and
/// networks, type of gradients in transit, size of ddp's first bucket, and whether buckets stay on the
/// network across steps. gradients: whose all-reduces they are. The same on every rank. Collective, by
/// `control`.
std::string bucket_profile_key(Communicator& control, const Communicator& gradients, const Graph& graph,
                               const Config& config, const Device& device, bool across = false);

/// Of a key, what says which way the sums go: backend and path of the all-reduces, and the ranks by host.
std::string route_of(const std::string& key);

/// buckets-<beginning of the key's SHA-256>.json in the cache directory.
std::string bucket_profile_path(const std::string& key);

std::string to_json(const BucketProfile& profile);
/// Throws DataError that says what is wrong: no profile, another version's, for another key, a plan that does
/// not fit `parameters`.
BucketProfile bucket_profile_from_json(const std::string& text, const std::string& key,
                                       std::size_t parameters);

/// For rank 0. A file that is not there gives nothing. Throws DataError naming the file.
std::optional<BucketProfile> read_bucket_profile(const std::string& path, const std::string& key,
                                                 std::size_t parameters);
/// For rank 0. Creates the folder; the file is complete or as it was. Throws RunError naming file and cause.
void write_bucket_profile(const std::string& path, const BucketProfile& profile);

}  // namespace tutti
