#include "plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bucket_report.hpp"
#include "model_doubts.hpp"
#include "table_units.hpp"
#include "tutti/base/units.hpp"
#include "tutti/comm/all_reduce_path.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

/// Whether costs go by the hosts, whose sums come first.
bool by_hosts(const MeasuredFile& file) {
    return file.measured.ranks_per_host > 1;
}

std::vector<std::string> assumptions(const MeasuredFile& file) {
    const bool hosts = by_hosts(file), between_all = sends_between_all(file.all_reduce_path);
    std::vector<std::string> list{
        fmt::format("every two {} are joined by links as fast as the measured ones, which carry nothing else",
                    hosts ? "hosts" : "ranks")};
    if (hosts)
        list.push_back(fmt::format(
            "each host has {0} ranks, as there; other numbers than multiples of {0}, and those of no "
            "more than {0}, are on the fewest hosts, two at least, with as many on each",
            file.measured.ranks_per_host));
    const char* const of = hosts ? "h" : "p";
    const std::string ring = fmt::format("a0 + 2({0}-1) alpha + 2({0}-1)/{0} S/B", of);
    list.push_back(fmt::format(
        "an all-reduce goes {}{}; a0, what a transfer costs besides its messages, is not known "
        "and counts as messages{}",
        hosts ? "host by host: the network carries the sum of each of h hosts once, " : "",
        between_all ? fmt::format("between every two, {}, as many messages and bytes as by a ring", ring)
                    : fmt::format("by a ring, {}, or by a tree, a0 + 2 log2({}) alpha + 2 S/B", ring, of),
        hosts ? ", and what is done within hosts counts as the network's" : ""));
    list.insert(list.begin() + 1, "each rank computes as long as it did there, with the same batch");
    if (file.hosts == 1)
        list.push_back(
            "all measured ranks were on one host, whose memory stands for the links between all; for "
            "ranks on several hosts measure on two");
    return list;
}

/// Where costs go by hosts: "4 x 2", hosts and the ranks on each.
std::string layout_of(const EvenHosts& at) {
    return fmt::format("{} x {}", at.hosts, at.each);
}

/// "ring", "tree", or nothing where it makes no difference.
std::string shape_of(const PlanReport& report, const WorldForecast& forecast) {
    if (forecast.world == 1) return "";
    return costs_as_measured(report.file.measured, forecast) ? "measured" : to_string(forecast.shape);
}

double samples_per_second(const PlanReport& report, const WorldForecast& forecast) {
    return static_cast<double>(report.file.samples) * forecast.world / forecast.step();
}

/// How all-reduces of these ranks go. Of two at least.
std::string path_of(const PlanReport& report, const WorldForecast& forecast) {
    const MeasuredFile& file = report.file;
    return path_on({file.all_reduce_path, file.compressed, file.measured.world, file.hosts}, forecast.world,
                   forecast.at);
}

/// A line for each path that others take, with their numbers of ranks.
std::string other_paths(const PlanReport& report) {
    std::map<std::string, std::vector<int>> worlds;
    for (const WorldForecast& forecast : report.worlds) {
        if (forecast.world == 1) continue;
        const std::string path = path_of(report, forecast);
        std::vector<int>& of_path = worlds[path];
        if (path != report.file.all_reduce_path && (of_path.empty() || of_path.back() != forecast.world))
            of_path.push_back(forecast.world);
    }
    std::string text;
    for (const auto& [path, numbers] : worlds)
        if (!numbers.empty())
            text += fmt::format("  all-reduces of {} ranks go by {}: the forecast is of another way, {}\n",
                                fmt::join(numbers, ", "), path, report.file.all_reduce_path);
    return text;
}

/// The part of so many times one rank's speed.
double efficiency(const WorldForecast& forecast) {
    return forecast.compute / forecast.step();
}

std::string name_of(const PlanForecast& forecast) {
    return forecast.plan.names.front().text();
}

std::string world_row(const PlanReport& report, const WorldForecast& forecast) {
    std::string plan = "-", schedule = "-", buckets = "-";
    double exposed = 0;
    if (!forecast.plans.empty()) {
        const PlanForecast& best = forecast.plans[forecast.best];
        plan = name_of(best);
        schedule = name_of_schedule(best.plan.across);
        buckets = std::to_string(best.plan.buckets.size());
        exposed = best.exposed;
    }
    const std::string at = by_hosts(report.file) ? fmt::format("  {:>12}", layout_of(forecast.at)) : "";
    return fmt::format(
        "  {:>6}{}  {:<8}  {:<14}  {:<12}  {:>7}  {:>10.3f}  {:>10.3f}  {:>12.1f}  {:>8.0f} %\n",
        forecast.world, at, shape_of(report, forecast), plan, schedule, buckets, forecast.step() * ms,
        exposed * ms, samples_per_second(report, forecast), 100 * efficiency(forecast));
}

/// Of the measured ranks the check has predictions, too, and it may have plans that the rows do not.
std::string shorter_in_check(const PlanReport& report) {
    constexpr double shown = 1e-6;  // seconds: the last digit of the rows
    const PlanCheck& least = *std::ranges::min_element(
        report.checks, {}, [](const PlanCheck& check) { return check.predicted.step; });
    for (const WorldForecast& forecast : report.worlds)
        if (forecast.world == report.file.measured.world && least.predicted.step < forecast.step() - shown)
            return fmt::format(
                "  of the {} ranks the check has a shorter prediction, {} with {:.3f} ms, of a plan that the "
                "rows do not have: --policies and --bucket-mb leave it out, or the bench made it of times "
                "before those of its rounds\n",
                forecast.world, least.measured.name, least.predicted.step * ms);
    return "";
}

std::string check_rows(const PlanReport& report) {
    const int world = report.file.measured.world;
    std::string text = fmt::format(
        "\ncheck: the {} ranks that were measured, ms\n  {:<28}  {:>9}  {:>9}  {:>8}  {:>10}  {:>10}\n",
        world, "plan", "measured", "predicted", "error", "exposed", "predicted");
    for (const PlanCheck& check : report.checks)
        text += fmt::format("  {:<28}  {:>9.3f}  {:>9.3f}  {:>+6.1f} %  {:>10.3f}  {:>10.3f}\n",
                            check.measured.name, check.measured.step * ms, check.predicted.step * ms,
                            check.error_percent(), check.measured.exposed * ms, check.predicted.exposed * ms);
    const PlanCheck& best = report.best_check();
    const PlanCheck& worst = report.worst_check();
    text += fmt::format("  the best plan there, {}, is predicted {:+.1f} % off; the worst, {}, {:+.1f} %\n",
                        best.measured.name, best.error_percent(), worst.measured.name, worst.error_percent());
    if (!report.is_borne_out())
        text += fmt::format(
            "  NOT BORNE OUT: that is more than {:.0f} %, so the rows below say little; measure again where "
            "nothing else runs, with more --steps\n",
            most_error_percent);
    return text;
}

Json plan_json(const PlanForecast& forecast, std::size_t element_bytes) {
    Json names = Json::array(), bytes = Json::array();
    for (const PlanName& name : forecast.plan.names)
        names.push_back({{"policy", to_string(name.policy)},
                         {"bucket_mb", name.bucket_mb > 0 ? Json(name.bucket_mb) : Json()},
                         {"text", name.text()}});
    for (const Bucket& bucket : forecast.plan.buckets)
        bytes.push_back(static_cast<std::size_t>(bucket.count) * element_bytes);
    return {{"names", names},
            {"schedule", name_of_schedule(forecast.plan.across)},
            {"bucket_bytes", bytes},
            {"step", forecast.step},
            {"searched", forecast.searched},
            {"exposed", forecast.exposed}};
}

Json world_json(const PlanReport& report, const WorldForecast& forecast) {
    Json plans = Json::array();
    for (const PlanForecast& plan : forecast.plans)
        plans.push_back(plan_json(plan, report.file.measured.element_bytes));
    const std::string shape = shape_of(report, forecast);
    return {{"world_size", forecast.world},
            {"hosts", by_hosts(report.file) ? Json(forecast.at.hosts) : Json()},
            {"all_reduce", shape.empty() ? Json() : Json(shape)},
            {"all_reduce_path", forecast.world == 1 ? Json() : Json(path_of(report, forecast))},
            {"fit", Json::parse(to_json(forecast.cost))},
            {"compute", forecast.compute},
            {"step", forecast.step()},
            {"samples_per_second", samples_per_second(report, forecast)},
            {"efficiency", efficiency(forecast)},
            {"best", forecast.plans.empty() ? Json() : Json(forecast.best)},
            {"plans", plans}};
}

}  // namespace

const PlanCheck& PlanReport::best_check() const {
    return *std::ranges::min_element(checks, {}, [](const PlanCheck& check) { return check.measured.step; });
}

const PlanCheck& PlanReport::worst_check() const {
    return *std::ranges::max_element(checks, {},
                                     [](const PlanCheck& check) { return std::abs(check.error_percent()); });
}

bool PlanReport::is_borne_out() const {
    return std::abs(best_check().error_percent()) <= most_error_percent;
}

PlanReport make_plan_report(MeasuredFile file, const std::vector<int>& worlds, PlanRequest request) {
    request.first_bucket_mb = file.first_bucket_mb;
    PlanReport report{std::move(file), {}, {}};
    const MeasuredWorld& measured = report.file.measured;
    for (const MeasuredPlan& plan : report.file.plans)
        report.checks.push_back({plan, forecast_plan(measured, plan.plan, measured.cost)});
    for (const int world : worlds)
        for (const AllReduceShape shape : {AllReduceShape::ring, AllReduceShape::tree}) {
            report.worlds.push_back(forecast_world(measured, world, shape, request));
            if (world == 1 || costs_as_measured(measured, report.worlds.back()) ||
                sends_between_all(report.file.all_reduce_path))
                break;
        }
    return report;
}

std::string to_text(const PlanReport& report) {
    const MeasuredFile& file = report.file;
    std::string text = fmt::format(
        "{}, {} of a rank in an update, {} of gradients; measured on {}{} (all-reduce: {}), {}\n", file.model,
        counted(file.samples, "sample"), format_bytes(file.gradient_bytes),
        counted(file.measured.world, "rank"),
        by_hosts(file) ? fmt::format(", {} on each of {} hosts", file.measured.ranks_per_host, file.hosts)
                       : "",
        file.all_reduce_path, file.path);
    if (file.replay) text += fmt::format("the measured layers were timed waits, {}\n", *file.replay);
    text += "assumed:\n";
    for (const std::string& one : assumptions(file)) text += "  " + one + "\n";
    text += fmt::format("the fit of the measured all-reduce is at most {:.0f} % off its sizes\n",
                        100 * file.worst_residual);
    text += fmt::format("the computation is that of the median of {} in one bucket there\n",
                        counted(file.steps, "step"));
    text +=
        fmt::format("the first bucket of ddp has at most {:g} MiB (distributed.first_bucket_mb), as there\n",
                    file.first_bucket_mb);
    text += check_rows(report);
    text += fmt::format(
        "\npredicted: of each number of ranks the plan with the shortest step\n  {:>6}{}  {:<8}  {:<14}  "
        "{:<12}  {:>7}  {:>10}  {:>10}  {:>12}  {:>10}\n",
        "ranks", by_hosts(file) ? "  hosts x each" : "", "by", "best plan", "schedule", "buckets", "step ms",
        "exposed ms", "samples/s", "of linear");
    for (const WorldForecast& forecast : report.worlds) text += world_row(report, forecast);
    return text + other_paths(report) + shorter_in_check(report);
}

Json to_json(const PlanReport& report) {
    Json checks = Json::array(), worlds = Json::array();
    for (const PlanCheck& check : report.checks)
        checks.push_back({{"plan", check.measured.name},
                          {"schedule", name_of_schedule(check.measured.plan.across)},
                          {"measured", check.measured.step},
                          {"predicted", check.predicted.step},
                          {"error_percent", check.error_percent()},
                          {"exposed_measured", check.measured.exposed},
                          {"exposed_predicted", check.predicted.exposed}});
    for (const WorldForecast& forecast : report.worlds) worlds.push_back(world_json(report, forecast));
    const MeasuredFile& file = report.file;
    return {{"plan_of", file.path},
            {"measured_by_version", file.version},
            {"model", file.model},
            {"samples_per_rank", file.samples},
            {"gradient_bytes", file.gradient_bytes},
            {"first_bucket_mb", file.first_bucket_mb},
            {"measured_world_size", file.measured.world},
            {"measured_hosts", file.hosts > 0 ? Json(file.hosts) : Json()},
            {"measured_steps", file.steps},
            {"all_reduce_path", file.all_reduce_path},
            {"replay", file.replay ? Json(*file.replay) : Json()},
            {"assumptions", assumptions(file)},
            {"check",
             {{"plans", checks},
              {"best_plan", report.best_check().measured.name},
              {"best_plan_error_percent", report.best_check().error_percent()},
              {"worst_error_percent", report.worst_check().error_percent()},
              {"borne_out", report.is_borne_out()}}},
            {"worlds", worlds}};
}

}  // namespace tutti
