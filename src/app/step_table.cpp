// The report as text.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "step_report.hpp"
#include "table_units.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {
namespace {

constexpr double giga = 1e-9;

std::string head(const StepReport& report) {
    const int world = report.world_size();
    return fmt::format("{}, {} per rank{}, {}, {} in all, {}\n{}\n", report.model,
                       counted(report.batch_size, "sample"),
                       report.accumulate > 1 ? fmt::format(" x {} micro-batches", report.accumulate) : "",
                       counted(world, "rank"), counted(report.threads, "thread"), report.data,
                       report.provenance.at("device").get<std::string>());
}

std::string rates(const StepReport& report) {
    const Spread step = report.step();
    std::string text = fmt::format(
        "\nstep       {:.3f} ms ({:.3f} - {:.3f}), median of {} after {} to warm up; of the slowest rank\n"
        "samples/s  {:.0f}\n"
        "GFLOP/s    {:.1f} = {:.1f} % of the fastest product\n",
        step.median * ms, step.min * ms, step.max * ms, report.steps.size(), report.warmup,
        report.samples_per_second(), report.flops_per_second() * giga,
        100 * report.flops_per_second() / report.peak());
    if (report.world_size() > 1)
        text += fmt::format("transfers  {}, all-reduce: {}\n", name_of_schedule(report.across),
                            report.all_reduce_path);
    for (const StepReport::Product& product : report.products)
        text += fmt::format("product    {:.1f} GFLOP/s, n = {}: {:.1f} a thread\n", product.rate * giga,
                            product.n, product.rate * giga / report.threads);
    const auto rows = layer_rows(report);
    if (std::ranges::any_of(rows, [](const LayerRow& row) {
            return row.layer->kind == "conv2d" && row.share_of_peak > 1.05;
        }))
        text +=
            "convolutions above 100 %: the products of the definition are counted, of which Winograd's "
            "method "
            "computes a part\n";
    return text;
}

std::string account(const StepReport& report) {
    std::string text =
        fmt::format("\nthe step's account, ms (rank {}, which computes longest)\n", report.slowest_rank);
    const double step = report.step().median;
    const StepAccount& parts = report.account;
    const std::pair<const char*, double> rows[] = {
        {"data wait", parts.data},      {"forward", parts.forward},
        {"backward", parts.backward},   {"exposed communication", parts.exposed},
        {"optimizer", parts.optimizer}, {"other", parts.other}};
    for (const auto& [name, seconds] : rows)
        text += fmt::format("  {:<22} {:>10.3f} {:>6.1f} %\n", name, seconds * ms, 100 * seconds / step);
    double sum = 0;
    for (const auto& row : rows) sum += row.second;
    if (std::abs(sum / step - 1) > 0.05)
        text += fmt::format(
            "  medians of each part, which add up to {:.0f} %: steps differ, as on cores that are shared\n",
            100 * sum / step);
    return text;
}

std::string memory(const StepReport& report) {
    std::string text = fmt::format("\npage faults {:.2f} a step of all ranks\n", report.page_faults);
    if (report.update_rate() > 0)
        text += fmt::format(
            "optimizer   {:.1f} MB at {:.1f} GB/s = {:.1f} % of a plain pass over as much memory\n",
            report.update.bytes * 1e-6, report.update_rate() * giga, 100 * report.update_share());
    return text;
}

std::string cuda_graph(const StepReport& report) {
    if (report.cuda_graph)
        return "\nThe gradients were a CUDA graph; run.cuda_graph=false shows the time of each layer.\n";
    return report.why_no_cuda_graph.empty() ? "" : "\nNo CUDA graph: " + report.why_no_cuda_graph + ".\n";
}

std::string layers(const StepReport& report) {
    std::string text =
        fmt::format("\n  {:<26} {:<14} {:>12} {:>11} {:>11} {:>9} {:>8} {:>8}\n", "layer", "kind",
                    "MFLOP/sample", "forward ms", "backward ms", "GFLOP/s", "of peak", "of step");
    for (const LayerRow& row : layer_rows(report)) {
        const double flops = row.layer->forward_flops + row.layer->backward_flops;
        const bool counted = flops > 0;
        text += fmt::format("  {:<26} {:<14} {:>12.3f} {:>11.3f} {:>11.3f} {:>9} {:>8} {:>6.1f} %\n",
                            row.layer->name, row.layer->kind, flops * 1e-6, row.forward * ms,
                            row.backward * ms, counted ? fmt::format("{:.1f}", row.rate * giga) : "-",
                            counted ? fmt::format("{:.1f} %", 100 * row.share_of_peak) : "-",
                            100 * row.share_of_step);
    }
    const StepProfile& profile = report.profile;
    text += fmt::format("  {:<26} {:<14} {:>12} {:>11.3f} {:>11.3f} {:>9} {:>8} {:>6.1f} %\n", "loss", "",
                        "-", profile.loss_forward * ms, profile.loss_backward * ms, "-", "-",
                        100 * (profile.loss_forward + profile.loss_backward) *
                            static_cast<double>(report.accumulate) / report.step().median);
    return text;
}

}  // namespace

std::string to_text(const StepReport& report) {
    return head(report) + rates(report) + account(report) + memory(report) + cuda_graph(report) +
           (report.cuda_graph ? "" : layers(report));
}

}  // namespace tutti
