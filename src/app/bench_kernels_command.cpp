#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench_commands.hpp"
#include "command_line.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/spread.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/device/cuda_module.hpp"
#include "tutti/device/kernel_cases.hpp"

namespace tutti {
namespace {

struct Row {
    KernelCase work;
    std::optional<double> median;  ///< seconds
};

void print_json(const CudaModule& cuda, const std::vector<Row>& rows) {
    nlohmann::ordered_json json;
    json["benchmark"] = "kernels";
    json["version"] = TUTTI_VERSION;
    json["device"] = cuda.usable() ? nlohmann::ordered_json(cuda.device_name(0)) : nullptr;
    if (!cuda.usable()) json["not_measured"] = cuda.problem();
    json["floor_bytes_per_second"] = floor_bandwidth;
    for (const auto& [work, median] : rows) {
        nlohmann::ordered_json row{{"kernel", work.name()}, {"dtype", std::string(name_of(work.dtype))},
                                   {"rows", work.rows},     {"width", work.width},
                                   {"bytes", work.bytes},   {"floor_seconds", work.floor()}};
        row["median_seconds"] = median ? nlohmann::ordered_json(*median) : nullptr;
        json["kernels"].push_back(row);
    }
    fmt::print("{}\n", json.dump(1));
}

void print_table(const CudaModule& cuda, const std::vector<Row>& rows) {
    if (cuda.usable()) fmt::print("{}\n\n", cuda.device_name(0));
    fmt::print("{:<34} {:<4} {:>16} {:>10} {:>10} {:>10} {:>8}\n", "kernel", "type", "shape", "MB moved",
               "floor us", "median us", "of floor");
    for (const auto& [work, median] : rows) {
        const std::string shape = fmt::format("{} x {}", work.rows, work.width);
        fmt::print("{:<34} {:<4} {:>16} {:>10.1f} {:>10.1f}", work.name(), name_of(work.dtype), shape,
                   static_cast<double>(work.bytes) / 1e6, work.floor() * 1e6);
        if (median) {
            fmt::print(" {:>10.1f} {:>7.0f}%\n", *median * 1e6, 100 * work.floor() / *median);
        } else {
            fmt::print(" {:>10} {:>8}\n", "-", "-");
        }
    }
    fmt::print("\nFloor: each input read and each output written once, at {:.1f} TB/s.\n",
               floor_bandwidth / 1e12);
    if (!cuda.usable()) fmt::print("Nothing was measured: {}.\n", cuda.problem());
}

}  // namespace

int bench_kernels_command(const Arguments& arguments) {
    OptionParser parser(
        "Our CUDA kernels at sizes from practice: the bytes that each must move, the time that this takes at "
        "least, and the median of its measured times, with a cold cache. Without a GPU nothing is measured.",
        "trainer bench kernels");
    int repetitions = 20;
    bool json = false;
    parser.add_option("--repetitions", repetitions, "runs per kernel").show_default().in_range(1, 10000);
    parser.add_flag("--json", json, "print JSON instead of the table");
    if (!parse_arguments(parser, arguments)) return 0;
    release_preemption_notice();
    // One GPU is enough to measure on; further ranks have nothing to add.
    if (!is_first_rank()) return static_cast<int>(ExitCode::done);

    const CudaModule cuda;
    std::vector<Row> rows;
    for (const KernelCase& work : kernel_cases()) {
        Row row{work, {}};
        if (cuda.usable()) {
            std::vector<double> seconds(static_cast<std::size_t>(repetitions));
            cuda.time_kernel(static_cast<int>(rows.size()), seconds);
            row.median = median(std::move(seconds));
        }
        rows.push_back(row);
    }
    json ? print_json(cuda, rows) : print_table(cuda, rows);
    return 0;
}

}  // namespace tutti
