#include <hdf5.h>

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <new>
#include <system_error>

#include "command_line.hpp"
#include "job_start.hpp"
#include "standard_streams.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti {
namespace {

struct Command {
    std::string name;
    std::string help;
    int (*run)(const Arguments&);
    bool on_all_ranks;      ///< else only the first rank works when a launcher starts several
    bool ends_on_signals;   ///< in an order of its own; else SIGUSR1, too, simply ends it
    bool is_group = false;  ///< of commands of its own: trainer bench step
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
        {"pack", "make an HDF5 data set", pack_command, false, true, true},
        {"export", "write the weights of a run as safetensors, under PyTorch's names", export_command, false,
         false},
        {"import", "write the weights of a safetensors file as HDF5", import_command, false, false},
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

/// What the first rank answers alone: help, or a command that is not of all ranks. MPI stays untouched: a
/// script may come to it twice, or on the first rank only, and train then.
int run_on_first(const std::function<int()>& run) {
    if (!is_first_rank()) return static_cast<int>(ExitCode::done);
    const int code = run();
    require_printed();
    return code;
}

/// Runs a command of all ranks; one whose command line is refused takes the others along.
int run_on_all(int (*run)(const Arguments&), const Arguments& arguments) {
    if (asks_for_help(arguments)) return run_on_first([&] { return run(arguments); });
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

int dispatch(Arguments arguments) {
    if (arguments.empty()) return run_on_all(train_command, arguments);
    const std::string first = arguments.front();
    if (first == "--help" || first == "-h") return run_on_first([] { return print_help(), 0; });
    if (first == "help") return dispatch(asked_for_help(arguments));
    if (first == "--version") return run_on_first([] { return std::cout << "tutti " TUTTI_VERSION "\n", 0; });
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
        if (command.name == first) return run_on_first([&] { return command.run(arguments); });
        names.push_back(command.name);
    }
    std::string near = nearest(first, names);
    for (const std::string& name : names)
        if (near.empty() && name.size() >= 4 && first.starts_with(name)) near = name;  // evaluate, training
    const bool is_config = first.ends_with(".yaml") || first.ends_with(".yml");
    return refuse_on_all_ranks(UsageError(first + " is not a command of trainer",
                                          is_config
                                              ? "a config is given with -c: trainer -c " + shell_word(first)
                                          : near.empty() ? "run trainer --help"
                                                         : "did you mean " + near + "?"));
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
        keep_exit_code();
        if (!text.empty()) std::cerr << "error: " << text << std::endl;
        return static_cast<int>(code);
    };
    try {
        const int code = dispatch(Arguments(argv + 1, argv + argc));
        keep_exit_code();
        return code;
    } catch (const LaunchMismatch& error) {
        // Every rank finds it for itself; one line is enough.
        return end(error.code(), is_first_rank() ? error.what() : "");
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
