#include <fmt/format.h>

#include "bench_commands.hpp"
#include "command_line.hpp"
#include "step_bench_run.hpp"
#include "stop_deadline.hpp"
#include "synthetic_data.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/report_file.hpp"

namespace tutti {
namespace {

int bench_step(const JobStart& start, const StepBenchOptions& options, const std::string& out, bool json) {
    const StopSignal signals;
    std::string path;
    together_on_first_rank(start.world, "preparing the report",
                           [&] { path = prepare_report(out, "step.json"); });
    const StepReport report = [&] {
        const StopDeadline deadline(start.log, "the measurement");
        return run_step_bench(start, options);
    }();
    together_on_first_rank(start.world, "writing the report", [&] {
        const auto document = to_json(report);
        fmt::print("{}\n", json ? json_text(document) : to_text(report));
        std::fflush(stdout);
        write_report(path, json_text(document, 1) + "\n");
        if (!json) fmt::print("{} is written\n", path);
        std::fflush(stdout);
    });
    return 0;
}

}  // namespace

int bench_step_command(const Arguments& arguments) {
    OptionParser parser(
        "One training step: its median time, samples/s, GFLOP/s and their share of what matrix products "
        "reach in the same run; where its time goes, part by part and layer by layer. Writes step.json. "
        "Without a config the quick-start recipe; nothing is trained, saved or resumed.",
        "trainer bench step");
    StepBenchOptions options;
    std::string out = ".", shape;
    bool json = false;
    add_recipe_options(parser, options.recipe);
    parser.add_option("--steps", options.steps, "measured steps").in_range(1, 10'000).show_default();
    parser.add_option("--warmup", options.warmup, "steps before them").in_range(0, 10'000).show_default();
    add_synthetic_options(parser, options.recipe, shape);
    parser
        .add_option(
            "--products", options.products,
            "sizes n of the n x n matrix products to compare with; default: 1024,2048, on a GPU 4096,8192")
        .delimiter(',')
        .one_word_each()
        .in_range(1, 16'384);
    parser.add_path("--out", out, "directory for step.json").show_default();
    parser.add_flag("--json", json, "print the JSON instead of the table");
    if (!parse_arguments(parser, arguments)) return 0;

    options.sample_shape = synthetic_shape(options.recipe, shape);
    return run_on_all_ranks(call_of(parser),
                            timeout_before_start(options.recipe.config_path, options.recipe.overrides),
                            [&](const JobStart& start) { return bench_step(start, options, out, json); });
}

}  // namespace tutti
