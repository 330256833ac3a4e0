#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>

#include "command_line.hpp"
#include "files_in_memory.hpp"
#include "replay_report.hpp"
#include "run_folder.hpp"
#include "select.hpp"
#include "transformed_data.hpp"
#include "tutti/base/device_choice.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/comm/launch.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/train/objective.hpp"

namespace tutti {
namespace {

/// The last file of that kind in the folder.
std::string what_to_name_in(const std::string& folder) {
    std::string last;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("failed-step-") && name.ends_with(".h5")) last = std::max(last, name);
    }
    if (last.empty())
        return "name a failed-step-….h5, which a run leaves when its loss is not finite; there is none in it";
    return "name the file in it: " + shell_word((std::filesystem::path(folder) / last).string());
}

Checkpoint read_failed_step_file(const std::string& file) {
    if (std::error_code ignored; std::filesystem::is_directory(file, ignored))
        throw DataError(file + " is a directory", what_to_name_in(file));
    Checkpoint checkpoint = load_checkpoint(file);
    if (checkpoint.failed_step.empty())
        throw DataError(file + " is a checkpoint, but holds no failed step",
                        "name the RUN_DIR/failed-step-….h5 that a run left when its loss was not finite");
    return checkpoint;
}

ReplayReport replay(const std::string& file, const std::vector<std::string>& overrides) {
    const Checkpoint checkpoint = read_failed_step_file(file);
    Config config = parse_config(checkpoint.config, file, overrides);
    config.device = choice_of(config);
    const std::string folder = start_folder_of_run(file);
    find_data_of_run(config.data, folder, overrides);
    if (!is_overridden(overrides, "train"))
        require_data_of_run(config.data.train, folder, "name the data: data.train=FILE.h5");
    if (config.data.train.empty())
        throw UsageError(file + ": the run made its data itself", "give data: data.train=FILE.h5");
    ReplayReport report{.file = file, .data = {}, .device = {}, .recorded = {}, .now = {}};
    report.recorded = parse_failed_step(checkpoint.failed_step, file);
    const std::vector<int> cores = bound_cores();
    const int threads = config.run.deterministic ? 1 : threads_for_rank(std::span(&cores, 1), 0);
    const auto device = select_device(config, threads);
    const auto data =
        transformed(open_datasets(config.data.train, file_memory_of_rank(1), labels_needed(config)), config,
                    TransformUse::training);
    report.data = fmt::format("{}", fmt::join(config.data.train, ", "));
    report.device = device->description();
    report.now = replay_failed_step(checkpoint, report.recorded, config, *device, *data, file);
    return report;
}

}  // namespace

int replay_command(const Arguments& arguments) {
    OptionParser parser(
        "Makes the step again that ended a run because its loss or gradient was not finite, on one rank, the "
        "ranks' samples in turn (with distributed.sync_batch_norm together), and names the samples, the "
        "first layer and else the first gradient that are "
        "not. Exit code 1: so it is here, too; 0: all is finite here.",
        "trainer replay");
    std::string file;
    std::vector<std::string> overrides;
    bool json = false;
    parser.add_path("file", file, "RUN_DIR/failed-step-NNNNNNNN.h5").required().type_name("FILE");
    parser.add_option("key=value", overrides,
                      "settings that override the run's, for example data.train=FILE.h5 or device=cpu");
    parser.add_flag("--json", json, "print one JSON object and nothing else");
    if (!parse_arguments(parser, arguments)) return 0;
    const ReplayReport report = replay(file, overrides);
    fmt::print("{}", json ? to_json(report) : to_text(report));
    std::fflush(stdout);
    return static_cast<int>(report.now.first ? ExitCode::failed : ExitCode::done);
}

}  // namespace tutti
