#include "bucket_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "spread_json.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* benchmark = "buckets";

Json to_json(const TimeSpan& span) {
    return {span.begin, span.end};
}

Json buckets_json(const BucketReport& report, const PlanResult& result) {
    Json rows = Json::array();
    for (std::size_t b = 0; b < result.plan.buckets.size(); ++b) {
        const Bucket& bucket = result.plan.buckets[b];
        const auto spread = [&](double BucketTimes::*time) {
            std::vector<double> values;
            for (const StepFigures& step : result.steps) values.push_back(step.buckets[b].*time);
            return spread_json(spread_of(std::move(values)));
        };
        rows.push_back({{"bytes", report.bucket_bytes(bucket)},
                        {"first", report.parameters[bucket.first].name},
                        {"last", report.parameters[bucket.last].name},
                        {"ready", spread(&BucketTimes::ready)},
                        {"start", spread(&BucketTimes::issued)},
                        {"done", spread(&BucketTimes::done)}});
    }
    return rows;
}

Json timeline_json(const StepTimeline& step) {
    Json micro_batches = Json::array();
    for (const MicroBatchTimes& micro : step.micro_batches()) {
        Json forward = Json::array(), backward = Json::array();
        for (const TimeSpan& layer : micro.layer_forward) forward.push_back(to_json(layer));
        for (const TimeSpan& layer : micro.layer_backward) backward.push_back(to_json(layer));
        micro_batches.push_back({{"data", to_json(micro.data)},
                                 {"forward", to_json(micro.forward)},
                                 {"backward", to_json(micro.backward)},
                                 {"layer_forward", forward},
                                 {"layer_backward", backward}});
    }
    Json buckets = Json::array();
    for (const BucketTimes& bucket : step.buckets)
        buckets.push_back({{"ready", bucket.ready}, {"start", bucket.issued}, {"done", bucket.done}});
    return {{"step", step.seconds},
            {"micro_batches", micro_batches},
            {"backward_end", step.backward_end()},
            {"buckets", buckets},
            {"communication", to_json(step.communication)},
            {"early_updates", step.early_updates},
            {"optimizer", to_json(step.optimizer)}};
}

Json plan_json(const BucketReport& report, const PlanResult& result) {
    const bool alone = report.world_size() == 1;
    Json names = Json::array();
    for (const PlanName& name : result.plan.names)
        names.push_back(
            {{"policy", to_string(name.policy)},
             // One of the other schedule is no point of the curve over sizes.
             {"bucket_mb", name.bucket_mb > 0 && name.schedule.empty() ? Json(name.bucket_mb) : Json()},
             {"text", name.text()}});
    const auto spread = [&](double (*figure)(const StepFigures&)) {
        return spread_json(spread_over(result.steps, figure));
    };
    Json steps = Json::array();
    for (const StepFigures& step : result.steps)
        steps.push_back({{"step", step.step},
                         {"backward", step.backward},
                         {"communication", step.communication},
                         {"hidden", step.hidden()},
                         {"exposed", step.exposed}});
    std::vector<std::size_t> order = result.plan.order;
    if (order.empty())
        for (std::size_t b = 0; b < result.plan.buckets.size(); ++b) order.push_back(b);
    return {{"names", names},
            {"schedule", name_of_schedule(result.plan.across)},
            {"issue_order", order},
            {"step", spread([](const StepFigures& step) { return step.step; })},
            {"predicted", result.predicted},
            {"data", spread([](const StepFigures& step) { return step.data; })},
            {"forward", spread([](const StepFigures& step) { return step.forward; })},
            {"backward", spread([](const StepFigures& step) { return step.backward; })},
            {"optimizer", spread([](const StepFigures& step) { return step.optimizer; })},
            {"communication", spread([](const StepFigures& step) { return step.communication; })},
            {"hidden", spread([](const StepFigures& step) { return step.hidden(); })},
            {"exposed", spread([](const StepFigures& step) { return step.exposed; })},
            {"transfer_cpu", spread([](const StepFigures& step) { return step.transfer_cpu; })},
            {"off_core", spread([](const StepFigures& step) { return step.off_core; })},
            {"overlap", alone ? Json() : spread([](const StepFigures& step) { return step.overlap(); })},
            {"buckets", buckets_json(report, result)},
            {"steps", steps},
            {"timeline", timeline_json(result.picture)}};
}

Json profile_json(const StepProfile& profile) {
    return {{"data", profile.data},
            {"loss_forward", profile.loss_forward},
            {"loss_backward", profile.loss_backward},
            {"optimizer", profile.optimizer},
            {"layer_forward", profile.layer_forward},
            {"layer_backward", profile.layer_backward}};
}

template <class Document>
StepProfile profile_of(const Document& json) {
    StepProfile profile;
    profile.data = json.at("data").template get<double>();
    profile.loss_forward = json.at("loss_forward").template get<double>();
    profile.loss_backward = json.at("loss_backward").template get<double>();
    profile.optimizer = json.at("optimizer").template get<double>();
    profile.layer_forward = json.at("layer_forward").template get<std::vector<double>>();
    profile.layer_backward = json.at("layer_backward").template get<std::vector<double>>();
    return profile;
}

Json layers_json(const BucketReport& report) {
    Json layers = Json::array();
    for (const Graph::LayerReport& layer : report.layers)
        layers.push_back({{"name", layer.name}, {"kind", layer.kind}, {"parameters", layer.trained()}});
    return layers;
}

Json parameters_json(const BucketReport& report) {
    Json parameters = Json::array();
    for (std::size_t p = 0; p < report.parameters.size(); ++p)
        parameters.push_back(
            {{"name", report.parameters[p].name},
             {"offset", static_cast<std::size_t>(report.parameters[p].offset) * report.element_bytes},
             {"bytes", static_cast<std::size_t>(report.parameters[p].count) * report.element_bytes},
             {"ready", report.measurement.ready[p]}});
    return parameters;
}

/// What other ranks are predicted from (trainer plan).
Json measurement_json(const BucketReport& report) {
    const StepMeasurement& measured = report.measurement;
    return {{"steps", report.rounds.steps},
            {"before", measured.before},
            {"backward_end", measured.backward_end},
            {"rest", measured.rest},
            {"data", measured.profile.data},
            {"optimizer", measured.profile.optimizer},
            {"layer_forward", measured.profile.layer_forward},
            {"per_piece", std::isinf(report.per_piece) ? Json() : Json(report.per_piece)}};
}

Json all_reduce_json(const BucketReport& report) {
    Json rows = Json::array();
    for (const AllReduceRow& row : report.all_reduce)
        rows.push_back({{"bytes", row.bytes},
                        {"time", spread_json(row.time)},
                        {"bus_bandwidth", row.bus_bandwidth(report.world_size())},
                        {"model", report.cost.seconds(static_cast<double>(row.bytes))}});
    return {{"path", report.all_reduce_path}, {"sizes", rows}, {"fit", Json::parse(to_json(report.cost))}};
}

template <class Value>
void require_same(const char* key, const Value& measured, const Value& here, const std::string& path) {
    if (measured == here) return;
    throw DataError(
        fmt::format("{}: its layers were timed with {} {}, and here it is {}", path, key, measured, here),
        fmt::format("set {} to {}, or give --replay without a file", key, measured));
}

}  // namespace

std::size_t BucketReport::gradient_bytes() const {
    std::size_t bytes = 0;
    for (const Parameter& parameter : parameters)
        bytes += static_cast<std::size_t>(parameter.count) * element_bytes;
    return bytes;
}

std::size_t BucketReport::best() const {
    const auto median = [](const PlanResult& result) {
        return spread_over(result.steps, [](const StepFigures& step) { return step.step; }).median;
    };
    return static_cast<std::size_t>(std::ranges::min_element(plans, {}, median) - plans.begin());
}

bool BucketReport::any_across() const {
    return std::ranges::any_of(plans, [](const PlanResult& result) { return result.plan.across; });
}

Spread spread_over(std::span<const StepFigures> steps, double (*figure)(const StepFigures&)) {
    std::vector<double> values;
    for (const StepFigures& step : steps) values.push_back(figure(step));
    return spread_of(std::move(values));
}

Json to_json(const BucketReport& report) {
    Json plans = Json::array();
    for (const PlanResult& result : report.plans) plans.push_back(plan_json(report, result));
    return {{"benchmark", benchmark},
            {"provenance", report.provenance},
            {"model", report.model},
            {"precision", report.precision},
            {"batch_size", report.batch_size},
            {"accumulate", report.accumulate},
            {"gradient_bytes", report.gradient_bytes()},
            {"compress", report.compressed ? "bf16" : "none"},
            {"first_bucket_mb", report.first_bucket_mb},
            {"replay", report.replay ? Json(*report.replay) : Json()},
            {"notes", report.notes},
            {"schedule", name_of_schedule(report.across)},
            {"steps", report.rounds.steps},
            {"warmup", report.rounds.warmup},
            {"best", report.best()},
            {"yardstick",
             {{"compute", report.yardstick.compute},
              {"communication", report.yardstick.communication},
              {"tail", report.yardstick.tail},
              {"least_communication", report.yardstick.least_communication},
              {"attainable", report.yardstick.attainable},
              {"step", report.yardstick.seconds()}}},
            {"plans", plans},
            {"all_reduce", all_reduce_json(report)},
            {"layers", layers_json(report)},
            {"parameters", parameters_json(report)},
            {"element_bytes", report.element_bytes},
            {"measurement", measurement_json(report)},
            {"profile", profile_json(report.profile)}};
}

std::string to_json(const StepProfile& profile) {
    return profile_json(profile).dump();
}

StepProfile profile_from_json(const std::string& text) {
    return profile_of(Json::parse(text));
}

StepProfile read_profile(const std::string& path, const BucketReport& replayed) {
    const std::string text = read_report(path, "give a buckets.json for --replay");
    try {
        const auto document = nlohmann::json::parse(text);
        if (document.at("benchmark") != benchmark) throw DataError(path + ": not a buckets.json");
        const auto& rows = document.at("layers");
        const auto& layers = replayed.layers;
        bool same = rows.size() == layers.size();
        for (std::size_t i = 0; same && i < layers.size(); ++i)
            same = rows[i].at("name") == layers[i].name && rows[i].at("kind") == layers[i].kind &&
                   rows[i].at("parameters") == layers[i].trained();
        if (!same)
            throw DataError(path + ": its layers are not those of this model",
                            "give the buckets.json of the same model, or --replay without a file");
        // The times are those of one micro-batch, so another train.accumulate is none of their business.
        require_same("train.batch_size", document.at("batch_size").get<std::int64_t>(), replayed.batch_size,
                     path);
        // Older versions did not say it.
        require_same("train.precision", document.value("precision", replayed.precision), replayed.precision,
                     path);
        return profile_of(document.at("profile"));
    } catch (const nlohmann::json::exception& error) {
        throw DataError(path + ": not a buckets.json: " + error.what(),
                        "trainer bench buckets writes such files");
    }
}

}  // namespace tutti
