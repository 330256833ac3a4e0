#include <fmt/format.h>
#include <hdf5.h>

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <system_error>
#include <utility>

#include "command_line.hpp"
#include "job_start.hpp"
#include "standard_streams.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/standard_error.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/comm/launch.hpp"
#include "version_report.hpp"

namespace tutti {
namespace {

struct Command {
    std::string name;
    std::string help;
    int (*run)(const Arguments&);
    bool on_all_ranks;         ///< else only the first rank works when a launcher starts several
    bool ends_on_signals;      ///< in an order of its own; else SIGUSR1, too, simply ends it
    bool is_group = false;     ///< of commands of its own: trainer bench step
    bool writes_file = false;  ///< of the first rank alone: what several ranks may want to write in parts
};

const std::vector<Command>& commands() {
    static const std::vector<Command> table = {
        {"train", "train a model (also without the word: trainer -c FILE)", train_command, true, true},
        {"eval", "exact metrics of a trained model over a data set", eval_command, true, true},
        {"predict", "write logits, predictions and embeddings, one row per sample", predict_command, true,
         true},
        {"doctor", "check the launch, the hosts and the network before a run", doctor_command, true, false},
        {"inspect", "show what is in a data set, a checkpoint, a run directory, predictions or a config",
         inspect_command, false, false},
        {"pack", "make an HDF5 data set", pack_command, false, true, true, true},
        {"export", "write the weights of a run as safetensors, under PyTorch's names", export_command, false,
         false, false, true},
        {"import", "write the weights of a safetensors file as HDF5", import_command, false, false, false,
         true},
        {"bench", "measured tables: allreduce, buckets, loader, step, kernels", bench_command, true, true,
         true},
        {"plan", "predict step and best buckets of other numbers of ranks from a buckets.json", plan_command,
         false, false},
        {"replay", "make the step again that ended a run, and name what was not finite", replay_command,
         false, false},
        {"sampler", "print the sample indices of a rank", sampler_command, false, false},
    };
    return table;
}

void print_help() {
    std::cout
        << "Tutti " TUTTI_VERSION
           ", data-parallel training on MPI clusters\n\n"
           "trainer [train] [-c FILE.yaml] [key=value ...]   train; without a file, the quick-start recipe\n"
           "trainer COMMAND ...\n\n";
    for (const Command& command : commands())
        std::cout << "  " << command.name << std::string(10 - command.name.size(), ' ') << command.help
                  << "\n";
    std::cout << "\ntrainer COMMAND --help, or trainer help COMMAND, tells more; trainer --version says "
                 "which one this "
                 "is.\nUnder MPI: mpirun -np 4 trainer -c FILE.yaml\n";
}

/// What is answered without the other ranks: help, or a command that is not of all ranks. MPI stays
/// untouched: a script may come to it twice, or on the first rank only, and train then.
int run_alone(bool here, const std::function<int()>& run) {
    if (!here) return static_cast<int>(ExitCode::done);
    const int code = run();
    require_printed();
    return code;
}

/// What the command writes, as far as it is named in the usual ways.
std::string output_of(const Arguments& arguments) {
    for (auto word = arguments.begin(); word != arguments.end(); ++word) {
        if ((*word == "-o" || *word == "--output") && std::next(word) != arguments.end())
            return *std::next(word);
        if (word->starts_with("--output=")) return word->substr(std::string("--output=").size());
        if (word->starts_with("-o")) return word->substr(2);
    }
    return "its file";
}

/// Several ranks of a command of the first one alone were often meant to work on a part each: where one
/// writes a file, each says that it does not. So does one that no launcher has started with others.
void warn_of_idle_ranks(const Command& command, const Arguments& arguments) {
    const LaunchFacts launch = read_launch(current_environment());
    const int ranks = launch.world_size.value_or(1), rank = launch.rank.value_or(0);
    const std::string left_over = remedy_for_left_over_variables();
    if (ranks == 1 || (!command.writes_file && (rank == 0 || !speaks_for_launch()))) return;
    const std::string others = ranks == 2 ? "rank 1 does" : "the other " + std::to_string(ranks - 1) + " do";
    const std::string who =
        rank == 0 ? others + " nothing"
                  : fmt::format("rank {} of {} on {} does nothing{}", rank, ranks, host_name(),
                                command.writes_file ? ", and writes nothing to " + output_of(arguments) : "");
    write_standard_error(fmt::format(
        "warning: trainer {} is rank 0's alone: {}; start it once ({}), and for several parts once for each "
        "(with Slurm: an array job, sbatch --array){}\n",
        command.name, who, launch.launcher == Launcher::srun ? "srun -n1" : "with one rank",
        left_over.empty() ? "" : "; " + left_over));
}

int run_on_first(const Command& command, const Arguments& arguments) {
    const auto run = [&] { return command.run(arguments); };
    if (asks_for_help(arguments)) return run_alone(speaks_for_launch(), run);
    warn_of_idle_ranks(command, arguments);
    return run_alone(is_first_rank(), run);
}

/// Runs a command of all ranks; one whose command line is refused takes the others along.
int run_on_all(int (*run)(const Arguments&), const Arguments& arguments) {
    if (asks_for_help(arguments)) return run_alone(speaks_for_launch(), [&] { return run(arguments); });
    try {
        return run(arguments);
    } catch (const UsageError& error) {
        return refuse_on_all_ranks(error);
    }
}

/// "help" and the words of a command as what asks that command itself: "step --help".
Arguments asked_for_help(const Arguments& arguments) {
    Arguments command(arguments.begin() + 1, arguments.end());
    if (!asks_for_help(command)) command.emplace_back("--help");
    return command;
}

/// What to write in the place of a first word that is no command. near: a command that looks like it.
std::string remedy_for_word(const std::string& word, const std::string& near) {
    if (word.ends_with(".yaml") || word.ends_with(".yml"))
        return "a config is given with -c: trainer -c " + shell_word(word);
    if (!near.empty()) return "did you mean " + near + "?";
    std::error_code none;
    if (!std::filesystem::exists(word, none)) return "run trainer --help";
    return fmt::format("what it is says: trainer inspect {}; a data set is trained on with data.train={}",
                       shell_word(word), shell_word(word));
}

int dispatch(Arguments arguments) {
    if (arguments.empty()) return run_on_all(train_command, arguments);
    const std::string first = arguments.front();
    if (first == "--help" || first == "-h")
        return run_alone(speaks_for_launch(), [] { return print_help(), 0; });
    if (first == "help") return dispatch(asked_for_help(arguments));
    if (first == "--version")
        return run_alone(speaks_for_launch(), [] { return std::cout << version_report(), 0; });
    if (first.starts_with("-") || first.find('=') != std::string::npos)
        return run_on_all(train_command, arguments);
    arguments.erase(arguments.begin());
    std::vector<std::string> names;
    for (const Command& command : commands()) {
        if (command.name == first && !command.ends_on_signals) release_preemption_notice();
        if (command.name == first && command.is_group && !arguments.empty() && arguments.front() == "help")
            arguments = asked_for_help(arguments);
        if (command.name == first && command.on_all_ranks) {
            const int code = run_on_all(command.run, arguments);
            // What training prints stands in its run directory, too.
            if (command.run != train_command) require_printed();
            return code;
        }
        if (command.name == first) return run_on_first(command, arguments);
        names.push_back(command.name);
    }
    std::string near = nearest(first, names);
    for (const std::string& name : names)
        if (near.empty() && name.size() >= 4 && first.starts_with(name)) near = name;  // evaluate, training
    for (const auto& [name, ours] : {std::pair{"test", "eval"}, {"validate", "eval"}, {"fit", "train"}})
        if (first == name) near = ours;  // as Lightning's command line has it
    return refuse_on_all_ranks(
        UsageError(first + " is not a command of trainer", remedy_for_word(first, near)));
}

std::string with_remedy_for_left_over(const std::string& text) {
    const std::string remedy = remedy_for_left_over_variables();
    return remedy.empty() ? text : text + "; " + remedy;
}

}  // namespace

int run_trainer(int argc, char** argv) {
    hold_preemption_notice();  // before the first is due, and any thread
    fill_closed_streams();
    for (const std::string& name : variables_of_another_job(current_environment())) unsetenv(name.c_str());
    // A file that reaches the limit of ulimit -f is an error that says so, not the end of the process.
    signal(SIGXFSZ, SIG_IGN);
    // Every file is closed by its handle. One that could not be, on a full disk, crashes the library at exit.
    H5dont_atexit();
    // Our errors say what HDF5 found. After damaged metadata the library would print at exit, too.
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    const auto end = [](ExitCode code, const std::string& text) {
        keep_exit_code(static_cast<int>(code));
        if (!text.empty()) write_standard_error("error: " + text + '\n');
        return static_cast<int>(code);
    };
    try {
        const int code = dispatch(Arguments(argv + 1, argv + argc));
        keep_exit_code(code);
        return code;
    } catch (const LaunchMismatch& error) {
        // Every rank finds it for itself; one line is enough.
        return end(error.code(), speaks_for_launch() ? with_remedy_for_left_over(error.what()) : "");
    } catch (const Error& error) {
        return end(error.code(), error.what());
    } catch (const std::system_error& error) {
        const bool printing = std::ferror(stdout) != 0;  // fmt says of it that a file cannot be written
        return end(ExitCode::failed, printing ? output_error(error.code().value()).what() : error.what());
    } catch (const std::bad_alloc&) {
        return end(ExitCode::failed, "not enough memory");
    } catch (const std::exception& error) {
        return end(ExitCode::failed, error.what());
    }
}

}  // namespace tutti
