#pragma once
// What `trainer bench step` has found, and its two forms: JSON and text.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tutti/model/graph.hpp"
#include "tutti/train/step_figures.hpp"

namespace tutti {

/// Median seconds of the parts of a step on one rank.
struct StepAccount {
    double data = 0, forward = 0, backward = 0;
    double exposed = 0;  ///< communication after the end of backward
    double optimizer = 0;
    double other = 0;  ///< the rest: waiting for the step's sums, bookkeeping
};

struct StepReport {
    nlohmann::ordered_json provenance;  ///< as in a run's provenance.json
    std::string model;                  ///< "lenet, products in bf16"
    std::string precision;
    std::string data;  ///< where the samples are from
    std::int64_t batch_size = 0;
    std::int64_t accumulate = 1;
    std::string all_reduce_path;
    bool across = false;  ///< buckets stay on the network during the next step's forward
    std::size_t warmup = 0;
    /// The gradients of every measured step were a CUDA graph: its layers have no times.
    bool cuda_graph = false;
    std::string why_no_cuda_graph;  ///< empty where nobody wanted one

    std::vector<double> steps;  ///< seconds, of the slowest rank each
    /// The rank that computed longest, and so let the others wait; account and profile are its own.
    int slowest_rank = 0;
    StepAccount account;
    StepProfile profile;
    std::vector<Graph::LayerReport> layers;
    /// The update of that rank, beside a plain pass over as much memory.
    struct Update {
        double bytes = 0;      ///< read and written
        double pass_rate = 0;  ///< bytes per second of the pass, which all ranks made at once
    };
    Update update;
    double page_faults = 0;  ///< of all ranks in a step, the mean over all steps made meanwhile

    struct Product {
        std::int64_t n = 0;
        double rate = 0;  ///< operations per second of all ranks together
    };
    std::vector<Product> products;
    int threads = 0;  ///< of all ranks

    int world_size() const { return provenance.at("world_size").get<int>(); }
    Spread step() const { return spread_of(steps); }
    /// Samples of one update, over all ranks.
    double samples_per_step() const;
    double samples_per_second() const { return samples_per_step() / step().median; }
    /// One sample's, forward and backward.
    double flops_per_sample() const;
    double flops_per_second() const { return flops_per_sample() * samples_per_second(); }
    /// The fastest of the products, all ranks together.
    double peak() const;
    /// Bytes per second of the update, and their share of the pass's; 0 where a part of a CUDA graph.
    double update_rate() const { return account.optimizer > 0 ? update.bytes / account.optimizer : 0; }
    double update_share() const { return update.pass_rate > 0 ? update_rate() / update.pass_rate : 0; }
};

/// What one layer does, on the slowest rank in one micro-batch.
struct LayerRow {
    const Graph::LayerReport* layer;
    double forward, backward;  ///< seconds
    double rate;               ///< operations per second of both
    double share_of_peak;      ///< of one rank's peak; 0 where nothing is counted
    double share_of_step;
};
std::vector<LayerRow> layer_rows(const StepReport& report);

/// Seconds, operations, operations per second, as measured. A spread is {min, median, max}.
///   benchmark "step"; provenance; model, precision, data, batch_size, accumulate, warmup, all_reduce_path
///   schedule: "across steps" or "within steps"
///   cuda_graph {ran, why_not}: where it ran, the seconds of layers and loss are 0, not measured
///   step (spread), steps [seconds]; samples_per_second; flops_per_sample {forward, backward};
///   flops_per_second; gemm {threads, sizes [{n, flops_per_second}], flops_per_second, share}
///   slowest_rank; account {data, forward, backward, exposed_communication, optimizer, other}
///   update {bytes, bytes_per_second, pass_bytes_per_second, share}; page_faults_per_step
///   layers [{name, kind, output, parameters, forward_flops, backward_flops (of one sample), seconds of
///     forward and backward, flops_per_second, share_of_peak, share_of_step}]; loss {forward, backward}
nlohmann::ordered_json to_json(const StepReport& report);
/// Tables for the terminal, with line ends.
std::string to_text(const StepReport& report);

}  // namespace tutti
