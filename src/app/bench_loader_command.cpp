#include <fmt/format.h>

#include "bench_commands.hpp"
#include "command_line.hpp"
#include "loader_bench_run.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/base/stop_signal.hpp"

namespace tutti {
namespace {

int bench_loader(const JobStart& start, const LoaderBenchOptions& options, const std::string& out,
                 bool json) {
    const StopSignal signals;
    std::string path;
    together_on_first_rank(start.world, "preparing the report",
                           [&] { path = prepare_report(out, "loader.json"); });
    const LoaderReport report = run_loader_bench(start, options);
    together_on_first_rank(start.world, "writing the report", [&] {
        const auto document = to_json(report);
        fmt::print("{}", json ? json_text(document) + "\n" : to_text(report));
        std::fflush(stdout);
        write_report(path, json_text(document, 1) + "\n");
        if (!json) fmt::print("{} is written\n", path);
        std::fflush(stdout);
    });
    return 0;
}

}  // namespace

int bench_loader_command(const Arguments& arguments) {
    OptionParser parser(
        "How fast batches come from data.train: samples/s and GB/s in shuffled order and in the order of the "
        "files, with 0, 1, 2 and the config's workers, with the files in memory and evicted from it, against "
        "a plain sequential read of the same files in the same run. Writes loader.json. Nothing is trained.",
        "trainer bench loader");
    LoaderBenchOptions options;
    std::string out = ".";
    bool json = false;
    add_recipe_options(parser, options.recipe);
    parser.add_option("--rounds", options.rounds, "measured rounds with the files in memory")
        .in_range(1, 10'000)
        .show_default();
    parser
        .add_option("--cold-rounds", options.cold_rounds,
                    "rounds with the files evicted from the page cache before; 0: none")
        .in_range(0, 10'000)
        .show_default();
    parser
        .add_option("--batches", options.batches,
                    "batches of a round and rank; default: the epoch, but at most about 4 GiB")
        .in_range(1, 1'000'000'000);
    parser.add_path("--out", out, "directory for loader.json").show_default();
    parser.add_flag("--json", json, "print the JSON instead of the table");
    if (!parse_arguments(parser, arguments)) return 0;
    return run_on_all_ranks(call_of(parser),
                            timeout_before_start(options.recipe.config_path, options.recipe.overrides),
                            [&](const JobStart& start) { return bench_loader(start, options, out, json); });
}

}  // namespace tutti
