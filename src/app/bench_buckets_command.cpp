#include <fmt/format.h>

#include <filesystem>

#include "bench_commands.hpp"
#include "bucket_bench_run.hpp"
#include "command_line.hpp"
#include "plan_options.hpp"
#include "stop_deadline.hpp"
#include "synthetic_data.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/report_file.hpp"

namespace tutti {
namespace {

int bench_buckets(const JobStart& start, const BucketBenchOptions& options, const std::string& out,
                  bool json) {
    const StopSignal signals;
    std::string json_path, page_path;
    together_on_first_rank(start.world, "preparing the report", [&] {
        json_path = prepare_report(out, "buckets.json");
        page_path = prepare_report(out, "buckets.html");
    });
    const BucketReport report = [&] {
        const StopDeadline deadline(start.log, "the measurement");
        return run_bucket_bench(start, options);
    }();
    together_on_first_rank(start.world, "writing the report", [&] {
        const auto document = to_json(report);
        fmt::print("{}\n", json ? json_text(document) : to_text(report));
        std::fflush(stdout);
        write_report(page_path, to_html(document));
        write_report(json_path, json_text(document, 1) + "\n");
        if (!json) fmt::print("{} and {} are written\n", json_path, page_path);
        std::fflush(stdout);
    });
    return 0;
}

}  // namespace

int bench_buckets_command(const Arguments& arguments) {
    OptionParser parser(
        "Which bucket size, on this network? Real training steps under several bucket plans in turn: step, "
        "backward, exposed communication. Writes buckets.json and buckets.html. Without a config the "
        "quick-start recipe; nothing is trained, saved or resumed.",
        "trainer bench buckets");
    BucketBenchOptions options;
    PlanOptions plans;
    std::string out = ".", replay, shape;
    bool json = false;
    add_recipe_options(parser, options.recipe);
    add_synthetic_options(parser, options.recipe, shape);
    plans.add_to(parser);
    parser.add_option("--steps", options.rounds.steps, "measured steps of each plan")
        .in_range(1, 10'000)
        .show_default();
    parser.add_option("--warmup", options.rounds.warmup, "steps of each plan before them")
        .in_range(0, 10'000)
        .show_default();
    const ParserOption replays =
        parser
            .add_path("--replay", replay,
                      "wait instead of computing, as long as each layer takes in FILE (a buckets.json) or, "
                      "without one, on rank 0 alone: for more ranks than cores")
            .expected(0, 1)
            .type_name("[FILE]");
    parser.add_path("--out", out, "directory for buckets.json and buckets.html").show_default();
    parser.add_flag("--json", json, "print the JSON instead of the table");
    if (!parse_arguments(parser, arguments)) return 0;

    options.sample_shape = synthetic_shape(options.recipe, shape);
    options.plans = plans.request();
    if (replays.given()) {
        // "--replay key=value": the setting is none of a file.
        std::error_code ignored;
        if (replay.find('=') != std::string::npos && !std::filesystem::exists(replay, ignored)) {
            options.recipe.overrides.push_back(replay);
            replay.clear();
        }
        options.replay = replay;
    }
    return run_on_all_ranks(call_of(parser),
                            timeout_before_start(options.recipe.config_path, options.recipe.overrides),
                            [&](const JobStart& start) { return bench_buckets(start, options, out, json); });
}

}  // namespace tutti
