#include <fmt/format.h>

#include <charconv>

#include "bench_commands.hpp"
#include "command_line.hpp"
#include "step_bench_run.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/train/report_file.hpp"

namespace tutti {
namespace {

int bench(const JobStart& start, const StepBenchOptions& options, const std::string& out) {
    const StopSignal signals;
    std::string path;
    together_on_first_rank(start.world, "preparing the report",
                           [&] { path = prepare_report(out, "step.json"); });
    const StepReport report = run_step_bench(start, options);
    together_on_first_rank(start.world, "writing the report", [&] {
        write_report(path, to_json(report).dump(1) + "\n");
        fmt::print("{}\n{} is written\n", to_text(report), path);
        std::fflush(stdout);
    });
    return 0;
}

/// "28x28x1", "784".
Shape parse_shape(const std::string& text) {
    const UsageError wrong("--shape: '" + text + "' is no shape of a sample",
                           "give HEIGHTxWIDTHxCHANNELS, as 28x28x1, or the number of features");
    std::vector<std::int64_t> sizes;
    const char *at = text.data(), *const end = at + text.size();
    while (true) {
        std::int64_t size = 0;
        const auto [rest, problem] = std::from_chars(at, end, size);
        if (problem != std::errc() || size < 1 || sizes.size() == 3) throw wrong;
        sizes.push_back(size);
        if (rest == end) return Shape(std::span<const std::int64_t>(sizes));
        if (*rest != 'x') throw wrong;
        at = rest + 1;
    }
}

}  // namespace

int bench_step_command(const Arguments& arguments) {
    CLI::App app(
        "One training step: its median time, samples/s, GFLOP/s and their share of what matrix products "
        "reach in the same run; where its time goes, part by part and layer by layer. Writes step.json. "
        "Without a config the quick-start recipe; nothing is trained, saved or resumed.",
        "trainer bench step");
    StepBenchOptions options;
    std::string out = ".", shape;
    add_recipe_options(app, options.recipe);
    app.add_option("--steps", options.steps, "measured steps")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    app.add_option("--warmup", options.warmup, "steps before them")
        ->check(CLI::Range(0, 10'000))
        ->capture_default_str();
    app.add_flag("--synthetic", options.recipe.own_data, "random samples in memory instead of data.train");
    app.add_option(
        "--shape", shape,
        "of such a sample, as 28x28x1 or 784; default: model.image and model.channels, else 28x28x1");
    app.add_option("--products", options.products, "sizes n of the n x n matrix products to compare with")
        ->delimiter(',')
        ->check(CLI::Range(1, 16'384))
        ->capture_default_str();
    app.add_option("--out", out, "directory for step.json")->capture_default_str();
    if (!parse_arguments(app, arguments)) return 0;

    if (!shape.empty()) {
        if (!options.recipe.own_data)
            throw UsageError("--shape is for --synthetic only", "the data set has its own shape");
        options.sample_shape = parse_shape(shape);
    }
    return run_on_all_ranks([&](const JobStart& start) { return bench(start, options, out); });
}

}  // namespace tutti
