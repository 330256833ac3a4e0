#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "command_line.hpp"
#include "job_start.hpp"
#include "provenance.hpp"
#include "requeue.hpp"
#include "run_folder.hpp"
#include "thread_changes.hpp"
#include "training_messages.hpp"
#include "training_recipe.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/familiar_options.hpp"
#include "tutti/base/path_type.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti {
namespace {

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

/// The latest of a run directory, if there is one: what is no directory is said when it is opened.
std::optional<std::string> checkpoint_in(const std::string& directory) {
    std::error_code none;
    if (!std::filesystem::is_directory(directory, none)) return {};
    return latest_checkpoint(directory);
}

/// The checkpoint that the last run in this directory was to go on from; empty where it named none, or what
/// there is is no config that can be read.
std::string origin_of_run(const std::string& directory) {
    try {
        const std::string file = directory + "/config.yaml";
        const Config config = parse_config(read_config_text(file, ConfigText::of_run), file, {});
        return names_checkpoint(config) ? config.run.resume : "";
    } catch (const Error&) {
        return {};
    }
}

/// What a run that was begun with a checkpoint from elsewhere begins with again, and why.
struct Origin {
    std::string file, why;
};

Origin origin_in(const std::string& directory) {
    const std::string noted = noted_origin(directory);
    if (!noted.empty())
        return {noted, fmt::format("the last start in {}, with run.resume={}, ended before its run began",
                                   directory, noted)};
    if (checkpoint_in(directory)) return {};
    std::string origin = origin_of_run(directory);
    if (origin.empty()) return {};
    origin = path_from(start_folder_of_run(directory), origin);
    return {origin,
            fmt::format("{} has no checkpoint, and its run was begun with run.resume={}", directory, origin)};
}

/// A run that was begun with a checkpoint from elsewhere, and died before it saved one of its own, begins
/// with that again: not with other weights. run.resume says so again, for the case that it dies once more.
void go_on_from_origin(const JobStart& start, Config& config) {
    if (config.run.resume != "auto") return;
    Origin origin;
    together_on_first_rank(start.world, "looking at the run directory", [&] {
        origin = origin_in(config.run.dir);
        if (!origin.file.empty() && type_of_path(origin.file) == std::filesystem::file_type::not_found)
            throw DataError(origin.why + ", which is not there",
                            "bring it back, or give run.resume=FILE; run.resume=never starts anew");
    });
    const std::string file = broadcast_text(start.world, origin.file, 0);
    if (file.empty()) return;
    start.log.warning(origin.why + ": it begins with that again (run.resume=never starts anew)");
    config.run.resume = file;
}

/// Whether the run goes on from a checkpoint, one that is named or one of its directory.
bool goes_on(const JobStart& start, const Config& config) {
    if (config.run.resume != "auto") return names_checkpoint(config);
    bool found = false;
    together_on_first_rank(start.world, "looking at the run directory",
                           [&] { found = checkpoint_in(config.run.dir).has_value(); });
    return !broadcast_text(start.world, found ? "found" : "", 0).empty();
}

/// checkpoint: the directory's latest, where the run is to go on from that. expected: it was there before.
std::unique_ptr<RunDirectory> open_run_directory(Communicator& world, const Config& config, bool expected,
                                                 std::optional<std::string>& checkpoint) {
    std::unique_ptr<RunDirectory> directory;
    std::string found;
    together_on_first_rank(world, "opening the run directory", [&] {
        directory = std::make_unique<RunDirectory>(config.run.dir, config.run.resume == "never");
        if (config.run.resume == "auto") found = latest_checkpoint(config.run.dir).value_or("");
        if (!found.empty() || names_checkpoint(config)) return;
        if (expected)
            throw RunError(config.run.dir + ": its checkpoints were removed while the run started",
                           "start the same command again");
        directory->begin_rows();
    });
    found = broadcast_text(world, found, 0);
    if (!found.empty()) checkpoint = found;
    return directory;
}

void resume_from_named(Trainer& trainer, Communicator& world, const std::string& checkpoint) {
    together_on_first_rank(world, "looking for the checkpoint", [&] {
        // What cannot be looked at is load_checkpoint's to say.
        std::error_code ignored;
        const auto status = std::filesystem::status(checkpoint, ignored);
        if (status.type() == std::filesystem::file_type::not_found)
            throw DataError("run.resume: there is no checkpoint " + checkpoint,
                            "set it to auto, never or a file such as RUN_DIR/checkpoints/step-00000100.h5");
    });
    trainer.resume(checkpoint);
}

/// Before provenance.json is written anew. Results of run.deterministic and of GPUs depend on no threads.
void warn_of_other_threads(Log& log, const Config& config, const TrainingInputs& inputs) {
    if (config.run.deterministic || inputs.device->kind() != "cpu") return;
    const std::string before = file::content_or_nothing(config.run.dir + "/provenance.json");
    if (const std::string changes = thread_changes(before, inputs.places); !changes.empty())
        log.warning("the ranks compute with other threads than before (" + changes +
                    "): what follows agrees with a run that was not interrupted to rounding, not to the last "
                    "bit; for the same bits give each rank as many cores as it had");
}

int train(const JobStart& start, const RecipeArguments& arguments) {
    auto& [session, world, log, environment] = start;
    const StopSignal signals;  // from here on: a signal during a long start must not be lost
    // Who reads the messages may end first (`2>&1 | tee log`, which Ctrl-C ends, too), which must not end a
    // training before it has saved.
    std::signal(SIGPIPE, SIG_IGN);
    Config config = read_training_config(start, arguments);
    // Before data are read, and before an earlier run in it is looked for.
    together_on_first_rank(start.world, "looking at the run directory",
                           [&] { check_report_place(config.run.dir, "log.txt", "run.dir"); });
    go_on_after_requeue(start, config);
    const bool same_command = config.run.resume == "auto";
    go_on_from_origin(start, config);
    const auto timed = start.timed_world(config.distributed);
    const TrainingInputs inputs = open_training(start.over(*timed), config, true);
    config = config_with_objective(std::move(config), inputs.train->info());

    const auto gradients = make_gradients_communicator(start, config.distributed, inputs.gpu, *timed);
    const auto control = timed->duplicate();
    // Before the run directory: what memory, the device, the data's channels or a checkpoint that was named
    // refuse leaves nothing behind.
    const bool resumes = goes_on(start, config);
    const Config chosen = config_of_run(config, *gradients);
    Trainer trainer({chosen, *inputs.device, *gradients, *control, log, nullptr, *inputs.train,
                     inputs.val.get(), &config, inputs.geography ? &*inputs.geography : nullptr, resumes,
                     inputs.labels.fingerprint});
    if (names_checkpoint(config)) resume_from_named(trainer, *control, config.run.resume);
    std::optional<std::string> checkpoint;
    const auto directory = open_run_directory(*control, config, resumes, checkpoint);
    together_on_first_rank(*control, "opening the log", [&] { log.open_file(directory->log_path()); });
    log_training(log, read_launch(environment).launcher, inputs, config);
    if (chosen.distributed.strategy != config.distributed.strategy)
        log.info("distributed.strategy: auto takes zero1, as the ranks have memory in common");
    if (checkpoint) trainer.resume(*checkpoint);
    if (names_checkpoint(config))
        together_on_first_rank(*control, "writing the run directory", [&] {
            directory->note_origin(std::filesystem::absolute(config.run.resume).string());
        });
    trainer.write_to(directory.get());
    // Not before: a resume that is refused must leave the run as it is, and so must one that has nothing to
    // do.
    const bool begins = !trainer.has_nothing_left();
    together_on_first_rank(*control, "writing the run directory", [&] {
        if (begins) {
            if (checkpoint) warn_of_other_threads(log, config, inputs);
            directory->write_config(to_yaml(trainer.recorded_config()));
            directory->write_provenance(
                provenance(*inputs.device, inputs.places, environment, arguments.overrides));
        }
        directory->forget_origin();
    });
    const TrainingResult result = trainer.run();

    log_end(log, config, result, same_command);
    if (world.rank() == 0 && result.code == ExitCode::done) print_result(log, result.last_eval);
    return static_cast<int>(result.code);
}

/// Of flags of the MNIST example without its recipe, which trains another model in another way.
std::string doubt_about_flags(const Arguments& arguments) {
    std::vector<std::string> flags;
    for (const std::string& word : arguments) {
        const std::string name = word.substr(0, word.find('='));
        // In another spelling it is somebody else's.
        if (const FamiliarOption* const option = find_familiar_flag(name, "train");
            option && option->from == "mnist" && option->name == name)
            flags.push_back(name);
    }
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

    return run_on_all_ranks(call_of(parser), timeout_before_start(parsed.config_path, parsed.overrides),
                            [&](const JobStart& start) { return train(start, parsed); });
}

}  // namespace tutti
