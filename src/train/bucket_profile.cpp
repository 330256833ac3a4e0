#include "bucket_profile.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tutti/base/atomic_file.hpp"
#include "tutti/base/bucket_policy.hpp"
#include "tutti/base/cache_directory.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/base/json_input.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/path_type.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/base/sha256.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/across_steps.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/precision.hpp"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

// 2: orders may have pieces. 3: where both schedules may be as fast, both were tried.
constexpr int version = 3;
constexpr const char* profile_version_name = "tutti_bucket_profile";

/// "4" for four ranks on one host, "2,2" for two hosts; in the order of their first ranks.
std::string ranks_by_host(const std::vector<std::string>& hosts) {
    std::vector<std::pair<std::string, int>> counts;
    for (const std::string& host : hosts) {
        const auto found =
            std::find_if(counts.begin(), counts.end(), [&](const auto& one) { return one.first == host; });
        if (found == counts.end())
            counts.emplace_back(host, 1);
        else
            ++found->second;
    }
    std::string text;
    for (const auto& [host, count] : counts) text += (text.empty() ? "" : ",") + std::to_string(count);
    return text;
}

/// Variables by which a user chooses a transport, a network or a way of summing on it: of Open MPI, UCX,
/// libfabric, MPICH, gloo and NCCL. Their order is part of the key: new ones last.
constexpr const char* transport_variables[] = {"OMPI_MCA_pml",
                                               "OMPI_MCA_btl",
                                               "OMPI_MCA_btl_tcp_if_include",
                                               "UCX_TLS",
                                               "OMPI_MCA_btl_tcp_if_exclude",
                                               "OMPI_MCA_mtl",
                                               "OMPI_MCA_coll",
                                               "UCX_NET_DEVICES",
                                               "FI_PROVIDER",
                                               "MPIR_CVAR_CH4_NETMOD",
                                               "GLOO_SOCKET_IFNAME",
                                               "NCCL_SOCKET_IFNAME",
                                               "NCCL_NET",
                                               "NCCL_NET_PLUGIN",
                                               "NCCL_IB_DISABLE",
                                               "NCCL_IB_HCA",
                                               "NCCL_P2P_DISABLE",
                                               "NCCL_P2P_LEVEL",
                                               "NCCL_SHM_DISABLE",
                                               "NCCL_NET_GDR_LEVEL",
                                               "NCCL_ALGO",
                                               "NCCL_PROTO"};

/// What the user told the libraries about transports; empty where they choose themselves.
std::string transport() {
    std::string text;
    for (const char* name : transport_variables)
        if (const char* value = std::getenv(name); value && *value)
            text += (text.empty() ? "" : " ") + std::string(name) + "=" + value;
    return text;
}

std::string shapes_of(const Graph& graph) {
    Sha256 hash;
    for (const Graph::LayerReport& layer : graph.report())
        hash.update(layer.name + " " + layer.kind + " " + to_string(layer.output) + "\n");
    for (const Parameter& parameter : graph.parameters())
        hash.update(parameter.name + " " + to_string(parameter.spec.file_shape) + "\n");
    return hash.hex();
}

Json to_object(const BucketTrial& trial) {
    Json object{{"name", trial.name},
                {"ends", trial.ends},
                {"predicted_seconds", trial.predicted},
                {"step_seconds", trial.step},
                // For the reader; the order says it.
                {"schedule", trial.across_steps() ? "across steps" : "within steps"}};
    if (!trial.order.empty()) object["order"] = trial.order;
    return object;
}

BucketTrial trial_from(const Json& object) {
    return {object.at("name").get<std::string>(), object.at("ends").get<std::vector<std::size_t>>(),
            object.at("predicted_seconds").get<double>(), object.at("step_seconds").get<double>(),
            object.value("order", std::vector<std::size_t>())};
}

}  // namespace

std::string schedules_tried(const Config& config, bool across) {
    if (!across) return "within steps";
    return config.distributed.across_steps == AcrossSteps::yes ? "across steps"
                                                               : "across steps where it pays";
}

std::string bucket_profile_key(Communicator& control, const Communicator& gradients, const Graph& graph,
                               const Config& config, const Device& device, bool across) {
    const auto hosts = all_gather_text(control, host_name());
    const auto devices = all_gather_text(control, device.description());
    Json key{{"model", shapes_of(graph)},
             {"precision", std::string(name_of(graph.compute()))},
             {"batch_size", config.train.batch_size},
             {"accumulate", config.train.accumulate},
             {"recompute", config.train.recompute},
             {"device", devices.front()},
             {"world", control.size()},
             {"ranks_by_host", ranks_by_host(hosts)},
             {"backend", gradients.backend()},
             {"path", gradients.all_reduce_path()},
             {"transport", transport()},
             {"policy", to_string(config.distributed.bucket_policy)}};
    // Products in a type of their own, which take another time.
    if (config.train.precision == Precision::bf16 || config.train.precision == Precision::tf32)
        key["precision"] = name_of(config.train.precision);
    // Plans of ddp are among those of auto alone.
    if (config.distributed.bucket_policy == BucketPolicy::automatic &&
        config.distributed.first_bucket_mb != DistributedConfig().first_bucket_mb)
        key["first_bucket_mb"] = config.distributed.first_bucket_mb;
    if (config.distributed.compress == Compress::bf16) key["compress"] = "bf16";
    if (across) key["schedule"] = schedules_tried(config, across);
    // Transports and processors may be told each rank in its own words: rank 0's count.
    return broadcast_text(control, json_text(key), 0);
}

std::string route_of(const std::string& key) {
    const Json all = Json::parse(key);
    return all.at("backend").get<std::string>() + ", " + all.at("path").get<std::string>() +
           ", ranks by host: " + all.at("ranks_by_host").get<std::string>();
}

std::string bucket_profile_path(const std::string& key) {
    Sha256 hash;
    hash.update(key);
    return (cache_directory() / ("buckets-" + hash.hex().substr(0, 16) + ".json")).string();
}

std::string to_json(const BucketProfile& profile) {
    Json trials = Json::array();
    for (const BucketTrial& trial : profile.trials) trials.push_back(to_object(trial));
    const Json document{{profile_version_name, version},
                        {"key", Json::parse(profile.key)},
                        {"chosen", to_object(profile.chosen)},
                        {"trials", trials},
                        {"all_reduce", Json::parse(to_json(profile.cost))},
                        {"backward_seconds", profile.backward_end},
                        {"ready_seconds", profile.ready}};
    return document.dump(2) + "\n";
}

BucketProfile bucket_profile_from_json(const std::string& text, const std::string& key,
                                       std::size_t parameters) {
    const Json document = json_or_discarded<Json>(text);
    if (document.is_discarded() || !document.is_object()) throw DataError("it is not a JSON object");
    if (!document.contains(profile_version_name)) throw DataError("it is not a bucket profile");
    if (document.at(profile_version_name) != version) throw DataError("it is another version's");
    try {
        if (document.at("key") != Json::parse(key)) throw DataError("it is for another training");
        BucketProfile profile;
        profile.key = key;
        profile.chosen = trial_from(document.at("chosen"));
        for (const Json& trial : document.at("trials")) profile.trials.push_back(trial_from(trial));
        profile.cost = cost_model_from_json(document.at("all_reduce").dump());
        profile.backward_end = document.at("backward_seconds").get<double>();
        profile.ready = document.at("ready_seconds").get<std::vector<double>>();
        if (profile.ready.size() != parameters)
            throw DataError("it has " + counted(profile.ready.size(), "parameter") + ", the model " +
                            std::to_string(parameters));
        // Checks the list; the slices do not matter for that.
        plan_from_ends(std::vector<ParameterSlice>(parameters), profile.chosen.ends);
        check_issue_order(profile.chosen.order, profile.chosen.ends.size());
        return profile;
    } catch (const nlohmann::json::exception& error) {
        throw DataError("it is damaged: " + json_problem(error.what()));
    }
}

std::optional<BucketProfile> read_bucket_profile(const std::string& path, const std::string& key,
                                                 std::size_t parameters) {
    if (type_of_path(path) == std::filesystem::file_type::not_found) return std::nullopt;
    const std::string text = read_report(path, "check its permissions, or remove it");
    try {
        return bucket_profile_from_json(text, key, parameters);
    } catch (const DataError& problem) {
        throw DataError(path + ": " + problem.what());
    }
}

void write_bucket_profile(const std::string& path, const BucketProfile& profile) {
    try {
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        file::replace(path, to_json(profile));
    } catch (const std::system_error& error) {
        throw RunError("cannot write " + path + ": " + file::cause(error));
    }
}

}  // namespace tutti
