#pragma once
// What `trainer bench buckets` has found, and its three forms: JSON, text, HTML.

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tutti/comm/all_reduce_bench.hpp"
#include "tutti/comm/cost_model.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/train/plan_steps.hpp"
#include "tutti/train/step_measurement.hpp"

namespace tutti {

struct PlanResult {
    BenchPlan plan;
    std::vector<StepFigures> steps;  ///< of the slowest rank each
    StepTimeline picture;            ///< of this rank: the step with the median time
    /// Seconds of a step by the cost model, which knows how fast the rounds' steps in one bucket computed;
    /// the plan was made before them.
    double predicted = 0;
};

struct BucketReport {
    nlohmann::ordered_json provenance;  ///< as in a run's provenance.json
    std::string model;                  ///< "lenet, products in bf16"
    std::string precision;              ///< train.precision
    std::int64_t batch_size = 0;        ///< per rank and micro-batch
    std::int64_t accumulate = 1;
    std::string all_reduce_path;  ///< Communicator::all_reduce_path()
    bool compressed = false;      ///< distributed.compress: bf16
    double first_bucket_mb = 1;   ///< distributed.first_bucket_mb: of the plans of ddp
    BenchRounds rounds;
    /// Of the plans whose names do not say it: buckets stay on the network during the next step's forward.
    bool across = false;
    /// Where the times of the layers are from when they are waited for instead of computed; else nothing.
    std::optional<std::string> replay;
    std::vector<std::string> notes;  ///< what a reader must know besides

    std::vector<Graph::LayerReport> layers;
    std::vector<Parameter> parameters;  ///< arena order
    std::size_t element_bytes = 4;
    StepMeasurement measurement;  ///< of the rounds, in one bucket within steps
    StepProfile profile;          ///< rank 0's computation
    double per_piece = std::numeric_limits<double>::infinity();  ///< AcrossTiming's

    std::vector<AllReduceRow> all_reduce;  ///< empty on one rank
    /// Its processor(): as measured, scaled_to the plans' steps, by how much longer they compute than those
    /// in one bucket and what they send meanwhile.
    CostModel cost;
    StepYardstick yardstick;
    std::vector<PlanResult> plans;

    int world_size() const { return provenance.at("world_size").get<int>(); }
    std::size_t bucket_bytes(const Bucket& bucket) const {
        return static_cast<std::size_t>(bucket.count) * element_bytes;
    }
    std::size_t gradient_bytes() const;
    /// The plan with the least median step.
    std::size_t best() const;
    /// Whether plans under the schedule across steps are among them.
    bool any_across() const;
};

/// The spread of one figure over steps.
Spread spread_over(std::span<const StepFigures> steps, double (*figure)(const StepFigures&));

/// Seconds and bytes, as measured. A spread is {min, median, max}.
///   benchmark: "buckets"; provenance; model, precision, batch_size, accumulate, gradient_bytes, compress
///     (distributed.compress); first_bucket_mb; steps, warmup; notes
///   schedule: "across steps" or "within steps", of the plans whose names do not say another
///   replay: null, or how layers were waited for instead of computed
///   best: number of the fastest plan
///   yardstick: {compute, communication, tail, least_communication, step, attainable}
///   plans: of each its names [{policy, bucket_mb or null, text}]; schedule; spreads of step, data, forward,
///     backward, optimizer, communication, hidden, exposed, transfer_cpu, off_core (as in StepTimeline),
///     overlap (null on one rank); predicted; issue_order: numbers of the buckets, one that goes in pieces
///     once for each; buckets [{bytes, first, last (parameters), spreads of ready, start, done}];
///     steps [{step, backward, communication, hidden, exposed}]; timeline: one step of rank 0, spans as
///     [begin, end]; early_updates: seconds of its communication (as in StepTimeline)
///   all_reduce: {path, sizes [{bytes, time (spread), bus_bandwidth, model}], fit}
///   layers, parameters (arena order, ready after the beginning of backward)
///   profile: rank 0's computation
///   measurement: {steps, before, backward_end, rest, data, optimizer, layer_forward, per_piece}: medians
///     over so many steps in one bucket within steps, in the same rounds as the plans', of the slowest rank,
///     scaled to yardstick's compute; ready, too
nlohmann::ordered_json to_json(const BucketReport& report);
/// A table for the terminal, with line ends.
std::string to_text(const BucketReport& report);
/// One self-contained page that shows `document`, which is to_json's.
std::string to_html(const nlohmann::ordered_json& document);

/// To send a profile to other ranks.
std::string to_json(const StepProfile& profile);
StepProfile profile_from_json(const std::string& text);

/// The profile in a file that to_json has given. Throws DataError: unreadable, not such a file, or of another
/// model, batch size or precision than `replayed`.
StepProfile read_profile(const std::string& path, const BucketReport& replayed);

}  // namespace tutti
