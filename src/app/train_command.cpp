#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "command_line.hpp"
#include "job_start.hpp"
#include "provenance.hpp"
#include "requeue.hpp"
#include "run_folder.hpp"
#include "training_recipe.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/familiar_options.hpp"
#include "tutti/base/idle_settings.hpp"
#include "tutti/base/path_type.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti {
namespace {

/// shown: what people call what the row has under `key`.
std::string number_text(const char* key, const char* shown, const nlohmann::json& row, std::int64_t samples) {
    const auto& value = row.at(key);
    return value.is_number() ? fmt::format("test {} {:.4f} ({} samples)", shown, value.get<double>(), samples)
                             : fmt::format("test {} not finite ({} samples)", shown, samples);
}

// The line that scripts look for is the last one on standard output.
void print_result(const std::string& last_eval, Log& log) {
    if (last_eval.empty()) return;
    const auto row = nlohmann::json::parse(last_eval);
    const auto samples = row.at("samples").get<std::int64_t>();
    const std::string text =
        row.contains("accuracy")
            ? fmt::format("test accuracy {:.4f} ({} of {})", row.at("accuracy").get<double>(),
                          row.at("correct").get<std::int64_t>(), samples)
        : row.contains("atiou") && !row.at("atiou").is_null() ? number_text("atiou", "AtIoU", row, samples)
        : row.contains("rmse")                                ? number_text("rmse", "rmse", row, samples)
                                                              : number_text("loss", "loss", row, samples);
    fmt::print("{}\n", text);
    std::fflush(stdout);
    log.note(text);
}

bool names_checkpoint(const Config& config) {
    return config.run.resume != "auto" && config.run.resume != "never";
}

/// A job that is requeued has the command line that it had: what it says of an earlier run must not throw
/// away what the job itself has saved since.
void go_on_after_requeue(const JobStart& start, Config& config) {
    if (config.run.resume == "auto") return;
    bool saved = false;
    together_on_first_rank(start.world, "looking at the run directory",
                           [&] { saved = has_saved_before_requeue(start.environment, config.run.dir); });
    if (broadcast_text(start.world, saved ? "saved" : "", 0).empty()) return;
    start.log.warning(
        fmt::format("run.resume is {}, but Slurm has requeued this job, which has saved a checkpoint in {} "
                    "before: it goes on from that",
                    config.run.resume, config.run.dir));
    config.run.resume = "auto";
}

/// The checkpoint that the last run in this directory was to go on from; empty where it named none, or what
/// there is is no config that can be read.
std::string origin_of_run(const std::string& directory) {
    try {
        const std::string file = directory + "/config.yaml";
        const Config config = parse_config(read_config_text(file), file, {});
        return names_checkpoint(config) ? config.run.resume : "";
    } catch (const Error&) {
        return {};
    }
}

/// A run that was begun with a checkpoint from elsewhere, and died before it saved one of its own, begins
/// with that again: not with other weights. run.resume says so again, for the case that it dies once more.
void go_on_from_origin(const JobStart& start, Config& config) {
    if (config.run.resume != "auto") return;
    std::string origin;
    together_on_first_rank(start.world, "looking at the run directory", [&] {
        std::error_code none;  // what is no directory is said when it is opened
        if (!std::filesystem::is_directory(config.run.dir, none) || latest_checkpoint(config.run.dir)) return;
        origin = origin_of_run(config.run.dir);
        if (!origin.empty()) origin = path_from(start_folder_of_run(config.run.dir), origin);
        if (!origin.empty() && type_of_path(origin) == std::filesystem::file_type::not_found)
            throw DataError(
                fmt::format(
                    "{} has no checkpoint, and its run was begun with run.resume={}, which is not there",
                    config.run.dir, origin),
                "bring it back, or give run.resume=FILE; run.resume=never "
                "starts anew");
    });
    origin = broadcast_text(start.world, origin, 0);
    if (origin.empty()) return;
    start.log.warning(
        fmt::format("{} has no checkpoint, and its run was begun with run.resume={}: it begins with that "
                    "again (run.resume=never starts anew)",
                    config.run.dir, origin));
    config.run.resume = origin;
}

/// checkpoint: the directory's latest, where the run is to go on from that.
std::unique_ptr<RunDirectory> open_run_directory(Communicator& world, const Config& config,
                                                 std::optional<std::string>& checkpoint) {
    std::unique_ptr<RunDirectory> directory;
    std::string found;
    together_on_first_rank(world, "opening the run directory", [&] {
        directory = std::make_unique<RunDirectory>(config.run.dir, config.run.resume == "never");
        if (config.run.resume == "auto") found = latest_checkpoint(config.run.dir).value_or("");
        if (found.empty() && !names_checkpoint(config)) directory->cut_metrics({});
    });
    found = broadcast_text(world, found, 0);
    if (!found.empty()) checkpoint = found;
    return directory;
}

int train(const JobStart& start, const RecipeArguments& arguments) {
    auto& [session, world, log, environment] = start;
    const StopSignal signals;  // from here on: a signal during a long start must not be lost
    // Who reads the messages may end first (`2>&1 | tee log`, which Ctrl-C ends, too), which must not end a
    // training before it has saved.
    std::signal(SIGPIPE, SIG_IGN);
    Config config = read_training_config(start, arguments);
    go_on_after_requeue(start, config);
    go_on_from_origin(start, config);
    const auto timed = start.timed_world(config.distributed);
    const TrainingInputs inputs = open_training(start.over(*timed), config, true);
    const auto& [places, device, gpu, train_data, val_data, geography] = inputs;
    config = config_with_objective(std::move(config), train_data->info());

    const auto gradients = make_gradients_communicator(start, config.distributed, inputs.gpu, *timed);
    const auto control = timed->duplicate();
    // Before the run directory: what memory, the device, the data's channels or a checkpoint that was named
    // refuse leaves nothing behind.
    const Config chosen = config_of_run(config, *gradients);
    Trainer trainer({chosen, *device, *gradients, *control, log, nullptr, *train_data, val_data.get(),
                     &config, geography ? &*geography : nullptr});
    if (names_checkpoint(config)) {
        together_on_first_rank(*control, "looking for the checkpoint", [&] {
            // What cannot be looked at is load_checkpoint's to say.
            std::error_code ignored;
            const auto status = std::filesystem::status(config.run.resume, ignored);
            if (status.type() == std::filesystem::file_type::not_found)
                throw DataError(
                    "run.resume: there is no checkpoint " + config.run.resume,
                    "set it to auto, never or a file such as RUN_DIR/checkpoints/step-00000100.h5");
        });
        trainer.resume(config.run.resume);
    }
    std::optional<std::string> checkpoint;
    const auto directory = open_run_directory(*control, config, checkpoint);
    together_on_first_rank(*control, "opening the log", [&] { log.open_file(directory->log_path()); });
    log.info(fmt::format("tutti " TUTTI_VERSION ": {} {} ({}), {}, run directory {}", places.size(),
                         places.size() == 1 ? "rank" : "ranks", to_string(read_launch(environment).launcher),
                         device->description(), config.run.dir));
    log.info(fmt::format("data: {}, {} samples {}, {}", train_data->name(), train_data->info().samples,
                         to_string(train_data->info().sample_shape), describe_wanted(train_data->info())));
    for (const std::string& idle : idle_settings(config)) log.warning(idle);
    if (const std::string doubt = doubt_about_layout(train_data->info()); !doubt.empty())
        log.warning("data: " + doubt);
    DatasetInfo seen = train_data->info();
    if (config.data.normalize)
        seen.mean.assign(config.data.normalize->mean.begin(), config.data.normalize->mean.end());
    if (const std::string doubt = doubt_about_units(seen); !doubt.empty()) log.warning("data: " + doubt);
    if (val_data && !config.data.normalize)
        if (const std::string doubt = doubt_about_scale(train_data->info(), val_data->info()); !doubt.empty())
            log.warning("data.val " + val_data->name() + ": " + doubt);
    if (train_data->reads_alone() && loader_workers(config.data) > 0)
        log.info(
            "data: this HDF5 library is not thread-safe, so batches of chunked data are read between steps; "
            "data in one piece, as trainer pack writes them, are not read through it");
    if (!config.data.transforms.empty()) {
        std::vector<std::string> transforms;
        for (const TransformSpec& spec : config.data.transforms) transforms.push_back(to_text(spec));
        log.info(fmt::format("transforms: {}", fmt::join(transforms, ", ")));
    }

    if (chosen.distributed.strategy != config.distributed.strategy)
        log.info("distributed.strategy: auto takes zero1, as the ranks have memory in common");
    if (checkpoint) trainer.resume(*checkpoint);
    trainer.write_to(directory.get());
    // Not before: a resume that is refused must leave the run as it is, and so must one that has nothing to
    // do.
    if (!trainer.has_nothing_left())
        together_on_first_rank(*control, "writing the run directory", [&] {
            directory->write_config(to_yaml(config));
            directory->write_provenance(provenance(*device, places, environment, arguments.overrides));
        });
    const TrainingResult result = trainer.run();

    const Progress& progress = result.progress;
    if (result.had_finished)
        log.info(fmt::format(
            "{} is finished: {} steps, {} epochs. To train again: run.resume=never; to train longer: {}",
            config.run.dir, progress.step, progress.epoch, result.to_go_on));
    else if (result.code == ExitCode::requeue)
        log.warning(fmt::format(
            "stopped by {} after step {}; the checkpoint is saved, {}",
            result.time_is_over          ? fmt::format("run.walltime, {} s,", *config.run.walltime)
            : StopSignal::pending() != 0 ? fmt::format("signal {}", StopSignal::pending())
                                         : "a signal to another rank",
            progress.step,
            config.run.resume == "auto" ? "the same command goes on" : "run.resume=auto goes on from it"));
    else
        log.info(fmt::format("finished after {} steps, {} samples{}", progress.step, progress.samples,
                             progress.skipped > 0
                                 ? fmt::format("; {} {} skipped (log.txt says why)", progress.skipped,
                                               progress.skipped == 1 ? "update was" : "updates were")
                                 : ""));
    if (world.rank() == 0 && result.code == ExitCode::done) print_result(result.last_eval, log);
    return static_cast<int>(result.code);
}

}  // namespace

namespace {

/// Of flags of the MNIST example without its recipe, which trains another model in another way.
std::string doubt_about_flags(const Arguments& arguments) {
    std::vector<std::string> flags;
    for (const std::string& word : arguments)
        if (const FamiliarOption* const option = find_familiar_flag(word.substr(0, word.find('=')), "train");
            option && option->from == "mnist")
            flags.push_back(option->name);
    if (flags.size() < 2) return {};
    return fmt::format(
        "{} are flags of the MNIST example, but without -c the built-in recipe is trained, "
        "another model with another optimizer; that example's is -c jobs/mnist.yaml",
        fmt::join(flags, ", "));
}

}  // namespace

int train_command(const Arguments& arguments) {
    OptionParser parser(
        "Trains a model. Without a config the built-in quick-start recipe (lenet on Fashion-MNIST).",
        "trainer train");
    RecipeArguments parsed;
    add_recipe_options(parser, parsed);
    parser.footer("Flags of other trainers are understood, too: trainer inspect --option-reference");
    if (!parse_arguments(parser, translate_familiar_flags(arguments, "train"))) return 0;
    if (parsed.config_path.empty()) parsed.doubt = doubt_about_flags(arguments);

    hold_preemption_notice();
    return run_on_all_ranks(call_of(parser), timeout_before_start(parsed.config_path, parsed.overrides),
                            [&](const JobStart& start) { return train(start, parsed); });
}

}  // namespace tutti
