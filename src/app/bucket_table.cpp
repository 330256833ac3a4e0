// The report as text.

#include <fmt/format.h>

#include <algorithm>

#include "bucket_report.hpp"
#include "model_doubts.hpp"
#include "table_units.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

std::string milliseconds(const Spread& spread) {
    return fmt::format("{:9.3f} ({:.3f} - {:.3f})", spread.median * ms, spread.min * ms, spread.max * ms);
}

/// Of the column of names.
std::size_t name_width(const BucketReport& report) {
    std::size_t width = 14;
    for (const PlanResult& result : report.plans)
        width = std::max(width, result.plan.names.front().text().size());
    return width;
}

std::string plan_row(const BucketReport& report, std::size_t index) {
    const PlanResult& result = report.plans[index];
    const auto spread = [&](double (*figure)(const StepFigures&)) {
        return spread_over(result.steps, figure);
    };
    const std::string overlap =
        report.world_size() == 1
            ? "-"
            : fmt::format("{:.0f} %", 100 * spread([](const StepFigures& s) { return s.overlap(); }).median);
    return fmt::format("  {:<{}} {:>7}  {:<31}  {:>9.3f}  {:>9.3f}  {:>8.3f}  {:<29}  {:>6}{}\n",
                       result.plan.names.front().text(), name_width(report), result.plan.buckets.size(),
                       milliseconds(spread([](const StepFigures& s) { return s.step; })),
                       result.predicted * ms,
                       spread([](const StepFigures& s) { return s.backward; }).median * ms,
                       spread([](const StepFigures& s) { return s.communication; }).median * ms,
                       milliseconds(spread([](const StepFigures& s) { return s.exposed; })), overlap,
                       report.world_size() > 1 && index == report.best() ? "  best" : "");
}

std::string same_cuts(const BucketReport& report) {
    std::string text;
    for (const PlanResult& result : report.plans) {
        if (result.plan.names.size() == 1) continue;
        std::vector<std::string> others;
        for (std::size_t i = 1; i < result.plan.names.size(); ++i)
            others.push_back(result.plan.names[i].text());
        text += fmt::format("  the same cuts, measured once: {} = {}\n", result.plan.names.front().text(),
                            fmt::join(others, " = "));
    }
    return text;
}

std::string bucket_rows(const BucketReport& report) {
    const PlanResult& best = report.plans[report.best()];
    std::string text =
        fmt::format("\nbuckets of {} (ms since the step began, medians)\n", best.plan.names.front().text());
    text += "            size      ready      start       done  parameters\n";
    for (std::size_t b = 0; b < best.plan.buckets.size(); ++b) {
        const Bucket& bucket = best.plan.buckets[b];
        const auto median = [&](double BucketTimes::*time) {
            std::vector<double> values;
            for (const StepFigures& step : best.steps) values.push_back(step.buckets[b].*time);
            return spread_of(std::move(values)).median * ms;
        };
        text += fmt::format("  {:>3} {:>10} {:>10.3f} {:>10.3f} {:>10.3f}  {} .. {}\n", b,
                            format_bytes(report.bucket_bytes(bucket)), median(&BucketTimes::ready),
                            median(&BucketTimes::issued), median(&BucketTimes::done),
                            report.parameters[bucket.first].name, report.parameters[bucket.last].name);
    }
    return text;
}

std::string all_reduce_rows(const BucketReport& report) {
    std::string text = fmt::format("\nall-reduce ({}), measured in the same run\n", report.all_reduce_path);
    text += "        size    time ms                        bus MB/s   model ms\n";
    for (const AllReduceRow& row : report.all_reduce)
        text += fmt::format("  {:>10} {:<31} {:>9.1f} {:>10.3f}\n", format_bytes(row.bytes),
                            milliseconds({row.time.min, row.time.median, row.time.max}),
                            row.bus_bandwidth(report.world_size()) * 1e-6,
                            report.cost.seconds(static_cast<double>(row.bytes)) * ms);
    for (const CostPiece& piece : report.cost.pieces()) {
        text += fmt::format("  fit from {}: {:.1f} us",
                            format_bytes(static_cast<std::uint64_t>(piece.from_bytes)), piece.alpha * 1e6);
        if (piece.seconds_per_byte > 0)
            text += fmt::format(" + bytes / {:.1f} MB/s", 1e-6 / piece.seconds_per_byte);
        text += '\n';
    }
    text += fmt::format(
        "  largest residual {:.0f} %; in the last {:.1f} us of a transfer the next one is under way\n",
        100 * report.cost.worst_residual(), 1e6 * report.cost.latency());
    const ProcessorCost& processor = report.cost.processor();
    if (processor != ProcessorCost{})
        text += fmt::format("  each takes {:.1f} us and {:.3f} ms a MiB from a computation beside it\n",
                            1e6 * processor.per_transfer, ms * mebibyte * processor.seconds_per_byte);
    return text;
}

/// Empty where the rounds bear out the model.
std::string doubts(const BucketReport& report) {
    const PlanResult& best = report.plans[report.best()];
    const double measured = spread_over(best.steps, [](const StepFigures& step) { return step.step; }).median;
    const std::string why = doubt_of_model(measured, best.predicted, report.yardstick.attainable);
    return why.empty() ? ""
                       : "  NOT BORNE OUT: " + why +
                             "; predictions, cost_model and what auto tries go by the same figures: measure "
                             "again where "
                             "nothing else runs and each rank has a core of its own, with more --steps\n";
}

}  // namespace

std::string to_text(const BucketReport& report) {
    const int world = report.world_size();
    std::string text =
        fmt::format("{}, {} per rank{}, {}, {} of gradients, all-reduce by {}\n", report.model,
                    counted(report.batch_size, "sample"),
                    report.accumulate > 1 ? fmt::format(" x {} micro-batches", report.accumulate) : "",
                    counted(world, "rank"), format_bytes(report.gradient_bytes()), report.all_reduce_path);
    if (report.replay)
        text += fmt::format("REPLAY: nothing is computed; layers are timed waits, {}\n", *report.replay);
    for (const std::string& note : report.notes) text += note + "\n";
    text += fmt::format(
        "{} of each plan in turn, after {} to warm up; ms of the slowest rank, median (min - max)\n",
        counted(report.rounds.steps, "step"), report.rounds.warmup);
    text +=
        report.across
            ? "schedule: across steps, buckets stay on the network during the next step's forward; each step "
              "follows one of the same plan\n\n"
            : "schedule: within steps\n\n";
    text += fmt::format("  {:<{}} {:>7}  {:<31}  {:>9}  {:>9}  {:>8}  {:<29}  {:>6}\n", "plan",
                        name_width(report), "buckets", "     step", "predicted", "backward", "all-red.",
                        "  exposed", "hidden");
    for (std::size_t i = 0; i < report.plans.size(); ++i) text += plan_row(report, i);
    text += same_cuts(report);
    if (world == 1) return text + "  one rank: nothing is communicated, and there is nothing to hide\n";
    text += fmt::format(
        "  yardstick: max(compute {:.3f}, communication {:.3f}) + the first layer's bucket {:.3f} = "
        "{:.3f} ms; no schedule {} is faster than {:.3f} ms\n",
        report.yardstick.compute * ms, report.yardstick.communication * ms, report.yardstick.tail * ms,
        report.yardstick.seconds() * ms, report.any_across() ? "across steps" : "within a step",
        report.yardstick.attainable * ms);
    text += doubts(report);
    const auto of_best = [&](double (*figure)(const StepFigures&)) {
        return spread_over(report.plans[report.best()].steps, figure).median * ms;
    };
    // Under replay nobody computes.
    if (!report.replay)
        text += fmt::format(
            "  no schedule hides the processor time that the best plan's transfers take from computation: "
            "calls {:.3f} ms a step; other work on the core during forward and backward (the network's and "
            "what else runs there) {:.3f} ms\n",
            of_best([](const StepFigures& step) { return step.transfer_cpu; }),
            of_best([](const StepFigures& step) { return step.off_core; }));
    return text + bucket_rows(report) + all_reduce_rows(report);
}

}  // namespace tutti
