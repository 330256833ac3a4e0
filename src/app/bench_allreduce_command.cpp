#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench_commands.hpp"
#include "command_line.hpp"
#include "device_choice.hpp"
#include "gradient_path.hpp"
#include "job_start.hpp"
#include "memory_check.hpp"
#include "spread_json.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/units.hpp"
#include "tutti/comm/all_reduce_bench.hpp"
#include "tutti/comm/mpi_session.hpp"

namespace tutti {
namespace {

struct Options {
    std::string sizes = "4K:256M";
    int iterations = 0, warmup = 5;
    DeviceChoice device = DeviceChoice::automatic;
    Backend backend = Backend::automatic;
    double timeout = 300;
    std::string out = ".";
    bool json = false;
};

/// What is reduced, and by what.
struct Reduction {
    SelectedDevice selected;  ///< outlives the communicator
    std::unique_ptr<Communicator> communicator;

    Device* gpu() const { return selected.gpu ? selected.device.get() : nullptr; }
    std::string memory() const { return selected.gpu ? selected.name : "host"; }
};

Reduction open_reduction(const JobStart& start, const Options& options, Communicator& control) {
    Config config;
    config.device = options.device;
    config.distributed = {.backend = options.backend, .timeout = options.timeout};
    Reduction reduction;
    SelectedDevice& selected = reduction.selected;
    try {
        selected =
            select_device(start.over(control), config, 1, sharing_under(start.environment, options.backend));
    } catch (const AgreedError& error) {
        throw AgreedError(error.code(), std::string(error.what()) +
                                            "; of this command the options are --device and --backend");
    }
    if (options.backend == Backend::nccl && !selected.gpu)
        throw AgreedError(ExitCode::usage,
                          "--backend is nccl, which joins GPUs, but the host's memory is to be summed: " +
                              (selected.notice.empty() ? "--device is cpu" : selected.notice) +
                              "; leave out --backend nccl, or start where every rank has a GPU");
    if (!selected.notice.empty()) start.log.info(selected.notice);
    reduction.communicator =
        make_gradients_communicator(start.over(control), config.distributed, selected.gpu, control);
    return reduction;
}

nlohmann::ordered_json report(const JobStart& start, const Reduction& reduction, const Options& options,
                              std::span<const AllReduceRow> rows, const CostModel& fit) {
    const Communicator& communicator = *reduction.communicator;
    nlohmann::ordered_json json;
    json["benchmark"] = "allreduce";
    json["version"] = TUTTI_VERSION;
    json["mpi"] = MpiSession::library_version();
    json["world_size"] = communicator.size();
    json["ranks_on_this_host"] = start.session.local_size();
    json["path"] = communicator.all_reduce_path();
    json["memory"] = reduction.memory();
    json["dtype"] = "f32";
    json["operation"] = "sum";
    json["warmup"] = options.warmup;
    json["rows"] = nlohmann::ordered_json::array();
    for (const AllReduceRow& row : rows) {
        nlohmann::ordered_json line;
        line["bytes"] = row.bytes;
        line["iterations"] = row.iterations;
        line["seconds"] = spread_json(row.time);
        line["algorithm_bandwidth"] = row.algorithm_bandwidth();
        line["bus_bandwidth"] = row.bus_bandwidth(communicator.size());
        if (row.ratio > 0) {
            line["mpi_allreduce_seconds"] = spread_json(row.bare);
            line["ratio"] = row.ratio;
        }
        line["verified"] = true;
        json["rows"].push_back(std::move(line));
    }
    json["fit"] = nlohmann::ordered_json::parse(to_json(fit));
    return json;
}

void print_head(const JobStart& start, const Reduction& reduction) {
    const int ranks = reduction.communicator->size();
    fmt::print("# all-reduce of f32, sum, in place, of {}: {} rank{} ({} on rank 0's host), {}; {}\n",
               reduction.gpu() ? "the memory of " + reduction.memory() : "the host's memory", ranks,
               ranks == 1 ? "" : "s", start.session.local_size(), reduction.communicator->all_reduce_path(),
               MpiSession::library_version());
    fmt::print(
        "# time of an iteration: the slowest rank's; algbw = bytes / median; busbw = algbw x 2(p-1)/p\n"
        "# {}All sums were verified.\n",
        reduction.gpu()
            ? "A call is one iteration, until the host knows that it is done. "
            : "MPI: one MPI_Allreduce, called in turn with ours; ratio: median of ours / MPI's. ");
    if (ranks == 1)
        fmt::print(
            "# One rank: nothing is exchanged. The times are those of the calls, busbw is 0, there is no "
            "fit.\n");
    fmt::print("# {:>10} {:>6} {:>11} {:>11} {:>11} {:>9} {:>9} {:>11} {:>7}\n", "bytes", "iter.", "min us",
               "median us", "max us", "algbw", "busbw", "MPI us", "ratio");
    fmt::print("# {:>10} {:>6} {:>11} {:>11} {:>11} {:>9} {:>9} {:>11} {:>7}\n", "", "", "", "", "", "GB/s",
               "GB/s", "median", "");
    std::fflush(stdout);
}

void print_row(const AllReduceRow& row, int ranks) {
    fmt::print("{:>12} {:>6} {:>11.2f} {:>11.2f} {:>11.2f} {:>9.3f} {:>9.3f}", row.bytes, row.iterations,
               row.time.min * 1e6, row.time.median * 1e6, row.time.max * 1e6,
               row.algorithm_bandwidth() * 1e-9, row.bus_bandwidth(ranks) * 1e-9);
    if (row.ratio > 0)
        fmt::print(" {:>11.2f} {:>7.3f}\n", row.bare.median * 1e6, row.ratio);
    else
        fmt::print(" {:>11} {:>7}\n", "-", "-");
    std::fflush(stdout);
}

void print_fit(const CostModel& fit, std::span<const AllReduceRow> rows) {
    const bool one_size =
        std::ranges::all_of(rows, [&](const AllReduceRow& row) { return row.bytes == rows.front().bytes; });
    fmt::print("# fit: time = alpha + bytes x beta, of the medians{}\n",
               one_size ? "; one size does not tell them apart, so all counts as bytes" : "");
    for (const CostPiece& piece : fit.pieces())
        fmt::print("#   from {:>10.0f} bytes: alpha {:.2f} us, beta {:.4f} ns/byte{}\n", piece.from_bytes,
                   piece.alpha * 1e6, piece.seconds_per_byte * 1e9,
                   piece.seconds_per_byte > 0 ? fmt::format(" ({:.2f} GB/s)", 1e-9 / piece.seconds_per_byte)
                                              : std::string());
    fmt::print("#   residuals:");
    for (std::size_t i = 0; i < rows.size(); ++i)
        fmt::print(" {} {:+.1f}%", rows[i].bytes, 100 * fit.residuals()[i]);
    fmt::print("; worst {:.1f}%\n", 100 * fit.worst_residual());
}

int bench(const JobStart& start, const Options& options) {
    const StopSignal signals;
    const auto control = start.timed_world({.backend = options.backend, .timeout = options.timeout});
    const bool first = control->rank() == 0;
    std::string path;
    together_on_first_rank(*control, "preparing the report",
                           [&] { path = prepare_report(options.out, "allreduce.json"); });

    AllReduceBench bench;
    bench.sizes = parse_byte_sizes(options.sizes);
    const Reduction reduction = open_reduction(start, options, *control);
    // A system that gives memory only as it is touched would end the ranks without a word. Pinned memory is
    // kept for each power of two.
    const bool staged = reduction.gpu() && reduction.communicator->backend() != "nccl" && control->size() > 1;
    check_buffer_memory(start, *control,
                        (staged ? 4 : 1) * static_cast<double>(std::ranges::max(bench.sizes)));
    bench.device = reduction.gpu();
    bench.control = control.get();
    bench.iterations = options.iterations;
    bench.warmup = options.warmup;
    if (first && !options.json) print_head(start, reduction);
    if (auto* const mpi = dynamic_cast<MpiSession*>(&start.session); mpi && !reduction.gpu())
        bench.bare = [mpi](std::span<float> buffer) { mpi->bare_all_reduce(buffer); };
    bench.stop = [] { return StopSignal::pending() != 0; };
    bench.done = [&](const AllReduceRow& row) {
        if (first && !options.json) print_row(row, control->size());
    };
    std::vector<AllReduceRow> rows;
    tell_errors(*reduction.communicator, [&] { rows = bench_all_reduce(*reduction.communicator, bench); });
    const CostModel fit = fit_cost(rows, control->size());

    together_on_first_rank(*control, "writing the report", [&] {
        const auto json = report(start, reduction, options, rows, fit);
        write_report(path, json_text(json, 2) + "\n");
        if (options.json)
            fmt::print("{}\n", json_text(json));
        else if (control->size() > 1)
            print_fit(fit, rows);
        std::fflush(stdout);
    });
    return 0;
}

}  // namespace

int bench_allreduce_command(const Arguments& arguments) {
    OptionParser parser(
        "Time and bandwidth of all-reduces against their size, verified, with a fit of latency and "
        "bandwidth: "
        "of the host's memory beside MPI_Allreduce, or of the GPUs' by what carries gradients. Writes "
        "allreduce.json.",
        "trainer bench allreduce");
    Options options;
    parser
        .add_option("--sizes", options.sizes,
                    "FROM:TO, FROM:TO:FACTOR or a list like 4K,1M, in bytes per rank; rounded up to whole "
                    "f32, of 4 bytes")
        .show_default();
    parser
        .add_option("--iterations", options.iterations,
                    "per size; default: 10 to 500, fewer for larger sizes")
        .in_range(1, 1'000'000);
    parser.add_option("--warmup", options.warmup, "iterations per size that do not count")
        .in_range(0, 1'000'000)
        .show_default();
    const ParserOption timeout =
        parser.add_option("--timeout", options.timeout, "seconds a rank waits for its peers, 0: for ever")
            .not_negative()
            .show_default();
    parser.add_choice<DeviceChoice>(
        "--device", options.device,
        "as device: whose memory is summed; auto: the GPUs', where every rank has one",
        {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}});
    parser.add_choice<Backend>("--backend", options.backend, "as distributed.backend",
                               {{"auto", Backend::automatic},
                                {"nccl", Backend::nccl},
                                {"mpi", Backend::mpi},
                                {"gloo", Backend::gloo}});
    parser.add_path("--out", options.out, "directory for allreduce.json").show_default();
    parser.add_flag("--json", options.json, "print the JSON instead of the table");
    if (!parse_arguments(parser, arguments)) return 0;
    for (const std::uint64_t bytes : parse_byte_sizes(options.sizes))
        if (bytes == 0)
            throw UsageError("--sizes has a size of 0 bytes", "measure sizes of at least 4 bytes");
    return run_on_all_ranks(call_of(parser), timeout.given() ? std::optional(options.timeout) : std::nullopt,
                            [&](const JobStart& start) { return bench(start, options); });
}

}  // namespace tutti
