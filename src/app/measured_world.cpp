#include "measured_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bucket_report.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/json_input.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/comm/all_reduce_path.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {
namespace {

constexpr const char* remedy = "trainer bench buckets --out FOLDER writes such a file";

void require(bool holds, const std::string& what) {
    if (!holds) throw DataError(what, remedy);
}

// Of sums and products of what is read none is then too large for its type.
constexpr double longest_time = 1e9;  ///< seconds: thirty years
constexpr std::int64_t largest_number = std::int64_t{1} << 48U;
constexpr double largest_bucket_mb = 1e8;

double seconds_of(const nlohmann::json& value) {
    const double seconds = value.get<double>();
    require(seconds >= 0 && seconds <= longest_time, "a time is " + value.dump());
    return seconds;
}

/// A whole number under this name, from `least` on.
std::int64_t number_in(const nlohmann::json& object, const char* name, std::int64_t least,
                       std::int64_t most = largest_number) {
    const nlohmann::json& value = object.at(name);
    require(value.is_number_integer() && value >= least && value <= most,
            fmt::format("{} is {}", name, value.dump()));
    return value.get<std::int64_t>();
}

std::vector<double> seconds_of_all(const nlohmann::json& values) {
    std::vector<double> seconds;
    for (const nlohmann::json& value : values) seconds.push_back(seconds_of(value));
    return seconds;
}

std::vector<std::string> names_of_parameters(const nlohmann::json& document) {
    std::vector<std::string> names;
    for (const nlohmann::json& row : document.at("parameters"))
        names.push_back(row.at("name").get<std::string>());
    require(!names.empty(), "it has no parameters");
    return names;
}

std::vector<ParameterSlice> slices_of(const nlohmann::json& rows, std::size_t element_bytes) {
    std::vector<ParameterSlice> slices;
    std::int64_t end = 0;
    for (const nlohmann::json& row : rows) {
        const auto element = static_cast<std::int64_t>(element_bytes);
        const ParameterSlice slice{number_in(row, "offset", 0) / element,
                                   number_in(row, "bytes", 0) / element};
        require(slice.count > 0 && slice.offset >= end,
                "parameter " + row.at("name").get<std::string>() + " overlaps the one before");
        end = slice.offset + slice.count;
        slices.push_back(slice);
    }
    return slices;
}

StepMeasurement measurement_of(const nlohmann::json& document) {
    const nlohmann::json& values = document.at("measurement");
    StepMeasurement measurement;
    measurement.before = seconds_of(values.at("before"));
    measurement.backward_end = seconds_of(values.at("backward_end"));
    // What ends a step may be less than nothing: medians of different steps.
    measurement.rest = values.at("rest").get<double>();
    require(std::abs(measurement.rest) <= longest_time, "rest is " + values.at("rest").dump());
    for (const nlohmann::json& row : document.at("parameters"))
        measurement.ready.push_back(seconds_of(row.at("ready")));
    measurement.profile.data = seconds_of(values.at("data"));
    measurement.profile.optimizer = seconds_of(values.at("optimizer"));
    measurement.profile.layer_forward = seconds_of_all(values.at("layer_forward"));
    return measurement;
}

MeasuredPlan plan_of(const nlohmann::json& row, std::span<const ParameterSlice> slices,
                     std::span<const std::string> names) {
    std::vector<std::size_t> ends;
    for (const nlohmann::json& bucket : row.at("buckets"))
        ends.push_back(static_cast<std::size_t>(
            std::ranges::find(names, bucket.at("last").get<std::string>()) - names.begin()));
    MeasuredPlan result;
    result.name = row.at("names").at(0).at("text").get<std::string>();
    // Older versions wrote "ddp 25 MB" and meant these, too.
    if (const std::size_t unit = result.name.find(" MB"); unit != std::string::npos)
        result.name.replace(unit, 3, " MiB");
    result.plan.buckets = plan_from_ends(slices, ends);
    result.plan.across = row.at("schedule") == name_of_schedule(true);
    if (result.plan.across) result.plan.order = row.at("issue_order").get<std::vector<std::size_t>>();
    check_issue_order(result.plan.order, result.plan.buckets.size());
    result.step = seconds_of(row.at("step").at("median"));
    result.exposed = seconds_of(row.at("exposed").at("median"));
    require(result.step > 0, "a step takes no time");
    return result;
}

AcrossTiming across_timing_of(const nlohmann::json& document, const MeasuredWorld& measured) {
    std::vector<std::int64_t> elements;
    for (const nlohmann::json& layer : document.at("layers"))
        elements.push_back(number_in(layer, "parameters", 0));
    const ParameterSlice& last = measured.parameters.back();
    const nlohmann::json& per_piece = document.at("measurement").at("per_piece");
    return with_costs(
        measured.measurement.across(
            layers_of(elements, measured.parameters, measured.measurement.profile.layer_forward),
            last.offset + last.count,
            per_piece.is_null() ? std::numeric_limits<double>::infinity() : seconds_of(per_piece)),
        measured.cost, measured.element_bytes);
}

/// The number of ranks that are the first of their host.
int hosts_of(const nlohmann::json& provenance) {
    if (!provenance.contains("ranks")) return 0;
    return static_cast<int>(std::ranges::count_if(
        provenance["ranks"], [](const nlohmann::json& rank) { return rank.at("local_rank") == 0; }));
}

/// MeasuredWorld's.
int ranks_per_host(const MeasuredFile& file) {
    if (!adds_within_hosts(file.all_reduce_path) || file.hosts == 0) return 1;
    require(file.hosts >= 2 && file.measured.world % file.hosts == 0,
            fmt::format("its all-reduce is by {}, but its {} ranks are not as many on each of several hosts",
                        file.all_reduce_path, file.measured.world));
    return file.measured.world / file.hosts;
}

MeasuredFile file_of(const nlohmann::json& document) {
    MeasuredFile file;
    file.version = document.at("provenance").at("version").get<std::string>();
    file.model = document.at("model").get<std::string>();
    file.all_reduce_path = document.at("all_reduce").at("path").get<std::string>();
    file.compressed = document.value("compress", "none") == "bf16";
    if (!document.at("replay").is_null()) file.replay = document.at("replay").get<std::string>();
    constexpr std::int64_t most_samples = 1'000'000'000;  // a rank's batch, or its batches in a step
    file.samples = number_in(document, "batch_size", 1, most_samples) *
                   number_in(document, "accumulate", 1, most_samples);
    file.gradient_bytes = static_cast<std::size_t>(number_in(document, "gradient_bytes", 1));
    file.first_bucket_mb = document.value("first_bucket_mb", file.first_bucket_mb);
    require(file.first_bucket_mb > 0 && file.first_bucket_mb <= largest_bucket_mb,
            "first_bucket_mb is not the size of a bucket");

    file.steps = number_in(document.at("measurement"), "steps", 1);

    MeasuredWorld& measured = file.measured;
    constexpr std::int64_t most_ranks = 1'000'000'000;
    measured.world = static_cast<int>(number_in(document.at("provenance"), "world_size", 1, most_ranks));
    const CostModel cost = cost_model_from_json(document.at("all_reduce").at("fit").dump());
    if (measured.world < 2 || cost.pieces().empty())
        throw DataError("it was measured on one rank, and has no times of an all-reduce",
                        "mpirun -np 2 trainer bench buckets measures some");
    for (const CostPiece& piece : cost.pieces())
        require(piece.from_bytes <= static_cast<double>(largest_number) &&
                    std::abs(piece.alpha) <= longest_time && piece.seconds_per_byte <= longest_time,
                fmt::format("an all-reduce of {} bytes or more takes {} s and {} s for each byte",
                            piece.from_bytes, piece.alpha, piece.seconds_per_byte));
    measured.cost = cost;
    file.hosts = hosts_of(document.at("provenance"));
    measured.ranks_per_host = ranks_per_host(file);
    file.worst_residual = cost.worst_residual();
    measured.element_bytes = static_cast<std::size_t>(number_in(document, "element_bytes", 1, 8));
    const std::vector<std::string> names = names_of_parameters(document);
    measured.parameters = slices_of(document.at("parameters"), measured.element_bytes);
    measured.layer_ends = layer_ends(names);
    measured.measurement = measurement_of(document);
    for (const nlohmann::json& row : document.at("plans"))
        file.plans.push_back(plan_of(row, measured.parameters, names));
    require(!file.plans.empty(), "it has no plans");
    measured.across =
        std::ranges::any_of(file.plans, [](const MeasuredPlan& one) { return one.plan.across; });
    if (measured.across) measured.across_timing = across_timing_of(document, measured);
    return file;
}

}  // namespace

MeasuredFile read_measured_world(const std::string& path) {
    const std::string text = read_report(path, remedy);
    try {
        const nlohmann::json document = parse_json<nlohmann::json>(text);
        if (!document.is_object() || document.value("benchmark", "") != "buckets")
            throw DataError("not a buckets.json", remedy);
        if (!document.contains("measurement"))
            throw DataError("it was written by an older version, which did not keep what this needs",
                            "measure it anew with trainer bench buckets");
        if (!document["measurement"].contains("steps"))
            throw DataError(
                "it was written by an older version, whose computation is that of a few first steps",
                "measure it anew with trainer bench buckets");
        MeasuredFile file = file_of(document);
        file.path = path;
        return file;
    } catch (const nlohmann::json::parse_error& error) {
        throw DataError(fmt::format("{}: not a buckets.json: no JSON, from byte {} on", path, error.byte),
                        remedy);
    } catch (const nlohmann::json::exception& error) {
        throw DataError(path + ": not a buckets.json: " + json_problem(error.what()), remedy);
    } catch (const DataError& error) {
        throw DataError(path + ": " + error.what());
    }
}

}  // namespace tutti
