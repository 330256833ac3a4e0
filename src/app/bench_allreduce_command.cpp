#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench_commands.hpp"
#include "command_line.hpp"
#include "job_start.hpp"
#include "memory_check.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/units.hpp"
#include "tutti/comm/all_reduce_bench.hpp"
#include "tutti/comm/mpi_session.hpp"
#include "tutti/train/report_file.hpp"

namespace tutti {
namespace {

struct Options {
    std::string sizes = "4K:256M";
    int iterations = 0, warmup = 5;
    Backend backend = Backend::automatic;
    double timeout = 300;
    std::string out = ".";
    bool json = false;
};

nlohmann::ordered_json to_json(const Timing& timing) {
    nlohmann::ordered_json json;
    json["min"] = timing.min;
    json["median"] = timing.median;
    json["max"] = timing.max;
    return json;
}

nlohmann::ordered_json report(const JobStart& start, const Communicator& communicator, const Options& options,
                              std::span<const AllReduceRow> rows, const CostModel& fit) {
    nlohmann::ordered_json json;
    json["benchmark"] = "allreduce";
    json["version"] = TUTTI_VERSION;
    json["mpi"] = MpiSession::library_version();
    json["world_size"] = communicator.size();
    json["ranks_on_this_host"] = start.session.local_size();
    json["path"] = communicator.all_reduce_path();
    json["dtype"] = "f32";
    json["operation"] = "sum";
    json["warmup"] = options.warmup;
    json["rows"] = nlohmann::ordered_json::array();
    for (const AllReduceRow& row : rows) {
        nlohmann::ordered_json line;
        line["bytes"] = row.bytes;
        line["iterations"] = row.iterations;
        line["seconds"] = to_json(row.time);
        line["algorithm_bandwidth"] = row.algorithm_bandwidth();
        line["bus_bandwidth"] = row.bus_bandwidth(communicator.size());
        if (row.ratio > 0) {
            line["mpi_allreduce_seconds"] = to_json(row.bare);
            line["ratio"] = row.ratio;
        }
        line["verified"] = true;
        json["rows"].push_back(std::move(line));
    }
    json["fit"] = nlohmann::ordered_json::parse(to_json(fit));
    return json;
}

void print_head(const JobStart& start, const Communicator& communicator) {
    const int ranks = communicator.size();
    fmt::print("# all-reduce of f32, sum, in place: {} rank{} ({} on rank 0's host), {}; {}\n", ranks,
               ranks == 1 ? "" : "s", start.session.local_size(), communicator.all_reduce_path(),
               MpiSession::library_version());
    fmt::print(
        "# time of an iteration: the slowest rank's; algbw = bytes / median; busbw = algbw x 2(p-1)/p\n"
        "# MPI: one MPI_Allreduce, called in turn with ours; ratio: median of ours / MPI's. All sums were "
        "verified.\n");
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
    fmt::print("# fit: time = alpha + bytes x beta, of the medians\n");
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
    const auto communicator = start.timed_world({.backend = options.backend, .timeout = options.timeout});
    const bool first = communicator->rank() == 0;
    std::string path;
    together_on_first_rank(*communicator, "preparing the report",
                           [&] { path = prepare_report(options.out, "allreduce.json"); });

    AllReduceBench bench;
    bench.sizes = parse_byte_sizes(options.sizes);
    // A system that gives memory only as it is touched would end the ranks without a word.
    check_buffer_memory(start, *communicator, static_cast<double>(std::ranges::max(bench.sizes)));
    bench.iterations = options.iterations;
    bench.warmup = options.warmup;
    if (first && !options.json) print_head(start, *communicator);
    if (auto* const mpi = dynamic_cast<MpiSession*>(&start.session))
        bench.bare = [mpi](std::span<float> buffer) { mpi->bare_all_reduce(buffer); };
    bench.stop = [] { return StopSignal::pending() != 0; };
    bench.done = [&](const AllReduceRow& row) {
        if (first && !options.json) print_row(row, communicator->size());
    };
    const std::vector<AllReduceRow> rows = bench_all_reduce(*communicator, bench);
    const CostModel fit = fit_cost(rows, communicator->size());

    together_on_first_rank(*communicator, "writing the report", [&] {
        const auto json = report(start, *communicator, options, rows, fit);
        write_report(path, json_text(json, 2) + "\n");
        if (options.json)
            fmt::print("{}\n", json_text(json));
        else if (communicator->size() > 1)
            print_fit(fit, rows);
        std::fflush(stdout);
    });
    return 0;
}

}  // namespace

int bench_allreduce_command(const Arguments& arguments) {
    OptionParser parser(
        "Time and bandwidth of all-reduces against their size, verified, beside MPI_Allreduce, with a fit of "
        "latency and bandwidth. Writes allreduce.json.",
        "trainer bench allreduce");
    Options options;
    parser
        .add_option("--sizes", options.sizes,
                    "FROM:TO, FROM:TO:FACTOR or a list like 4K,1M, in bytes per rank")
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
    parser.add_choice<Backend>(
        "--backend", options.backend, "as distributed.backend",
        {{"auto", Backend::automatic}, {"mpi", Backend::mpi}, {"gloo", Backend::gloo}});
    parser.add_option("--out", options.out, "directory for allreduce.json").show_default();
    parser.add_flag("--json", options.json, "print the JSON instead of the table");
    if (!parse_arguments(parser, arguments)) return 0;
    for (const std::uint64_t bytes : parse_byte_sizes(options.sizes))
        if (bytes == 0)
            throw UsageError("--sizes has a size of 0 bytes", "measure sizes of at least 4 bytes");
    return run_on_all_ranks(call_of(parser), timeout.given() ? std::optional(options.timeout) : std::nullopt,
                            [&](const JobStart& start) { return bench(start, options); });
}

}  // namespace tutti
