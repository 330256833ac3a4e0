#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <set>

#include "flag_remedy.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/familiar_options.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti {
namespace {

std::vector<std::string> flags_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
        for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
    return names;
}

/// Without the dashes.
std::string bare(const std::string& flag) {
    return flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
}

/// Of `known` the one that differs in capitals, _ and - only, else with `edits` the nearest long one. One
/// letter is as near to any other.
std::string near_flag(const std::string& flag, const std::vector<std::string>& known, bool edits) {
    for (const std::string& name : known)
        if (same_but_for_spelling(name, flag)) return name;
    if (!edits || !flag.starts_with("--")) return {};
    std::vector<std::string> words;
    for (const std::string& name : known)
        if (name.starts_with("--")) words.push_back(bare(name));
    const std::string word = nearest(bare(flag), words);
    return word.empty() ? word : "--" + word;
}

/// Flags of other trainers that the command of `app` understands.
std::vector<std::string> familiar_flags_of(const CLI::App& app) {
    const std::string& name = app.get_name();
    const std::string command = name.substr(name.rfind(' ') + 1);
    std::vector<std::string> names;
    if (command != "train" && command != "predict") return names;
    for (const FamiliarOption& option : familiar_options())
        if (option.form == FamiliarOption::Form::flag && option.meaning != FamiliarOption::Meaning::refused &&
            find_familiar_flag(option.name, command) != nullptr)
            names.push_back(option.name);
    return names;
}

/// The only one that begins with `flag`, if that is long enough to mean something.
std::string completed(const std::string& flag, const std::vector<std::string>& known) {
    std::string result;
    if (flag.size() < std::string("--abc").size()) return result;
    for (const std::string& name : known) {
        if (!name.starts_with(flag)) continue;
        if (!result.empty()) return {};
        result = name;
    }
    return result;
}

/// The word behind a flag, where it can be its value.
std::string value_of(const std::string& argument, const std::string* next) {
    if (const std::size_t equals = argument.find('='); equals != std::string::npos)
        return argument.substr(equals + 1);
    const bool is_value = next && !next->starts_with('-') && next->find('=') == std::string::npos;
    return is_value ? *next : std::string();
}

/// Throws UsageError with a suggestion for the first of `arguments` that begins with `dashes` and is no flag.
void refuse_unknown_flags(const CLI::App& app, const Arguments& arguments, const char* dashes) {
    const std::vector<std::string> known = flags_of(app);
    const bool takes_keys = app.get_option_no_throw("key=value") != nullptr;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& argument = arguments[i];
        const std::string flag = argument.substr(0, argument.find('='));
        if (!flag.starts_with(dashes) || std::find(known.begin(), known.end(), flag) != known.end()) continue;
        std::string near = near_flag(flag, known, false);
        const std::string* const next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
        const std::string remedy = near.empty() && takes_keys
                                       ? flag_remedy(app.get_name(), flag, value_of(argument, next))
                                       : std::string();
        if (remedy.empty()) {
            const std::vector<std::string> familiar = familiar_flags_of(app);
            if (near.empty()) near = near_flag(flag, known, true);
            if (near.empty()) near = completed(flag, known);
            if (near.empty()) near = near_flag(flag, familiar, true);
            if (near.empty()) near = completed(flag, familiar);
        }
        throw UsageError(flag + " is not an option of " + app.get_name(),
                         !remedy.empty() ? remedy
                         : !near.empty() ? "did you mean " + near + "?"
                                         : "run " + app.get_name() + " --help");
    }
}

/// An option whose value is missing would take the next word, and one whose value is empty would be as if it
/// had not been given: often a variable of a script that is not set.
void refuse_empty_values(const CLI::App& app, const Arguments& arguments) {
    for (auto word = arguments.begin(); word != arguments.end() && *word != "--"; ++word) {
        if (!word->starts_with('-')) continue;
        const std::size_t equals = word->find('=');
        const std::string name = word->substr(0, equals);
        const CLI::Option* const option = app.get_option_no_throw(name);
        if (option == nullptr || option->get_items_expected_max() == 0) continue;
        const auto next = std::next(word);
        // A column without a name is called ''; of --drop= CLI11 takes the next word.
        const bool empty = equals == std::string::npos
                               ? next != arguments.end() && next->empty() && name != "--drop"
                               : equals + 1 == word->size();
        if (empty)
            throw UsageError(app.get_name() + ": " + name + " has an empty value",
                             "give one, or leave " + name + " out; is a variable of a script not set?");
    }
}

/// Of the options and words that must be given those that are not, each with what it is for.
std::string missing_ones(const CLI::App& app) {
    std::string all;
    for (const CLI::Option* option : app.get_options()) {
        if (!option->get_required() || option->count() > 0) continue;
        const std::string name =
            option->get_positional() ? option->get_name(true) : option->get_name(false, true);
        all += (all.empty() ? "" : ", ") + name + " (" + option->get_description() + ")";
    }
    return all;
}

}  // namespace

bool is_first_rank() {
    return read_launch(current_environment()).rank.value_or(0) == 0;
}

bool speaks_for_launch() {
    return is_first_rank() || !runs_below(read_launch(current_environment()).launcher);
}

std::string remedy_for_left_over_variables() {
    const Launcher launcher = read_launch(current_environment()).launcher;
    const char* const names = launcher == Launcher::mpirun ? "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE"
                              : launcher == Launcher::mpiexec_hydra ? "PMI_RANK and PMI_SIZE"
                              : launcher == Launcher::srun          ? "SLURM_PROCID and SLURM_STEP_NUM_TASKS"
                                                                    : "";
    if (*names == '\0' || runs_below(launcher)) return {};
    return "no process of " + to_string(launcher) + " is seen above this one: if none started it, unset " +
           names + ", which are left over";
}

bool parse_arguments(OptionParser& parser, const Arguments& arguments) {
    CLI::App& app = parser.cli();
    const std::string help = "run " + app.get_name() + " --help";
    refuse_empty_values(app, arguments);
    try {
        Arguments reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them from the back
        app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
        if (speaks_for_launch()) std::cout << app.help();
        return false;
    } catch (const CLI::ExtrasError&) {
        refuse_unknown_flags(app, arguments, "-");
        throw UsageError(app.get_name() + ": " + app.remaining().front() + " was not expected", help);
    } catch (const CLI::RequiredError& error) {
        // "--sample is unknown" helps more than "--samples is missing". Here -5 may be a value.
        refuse_unknown_flags(app, arguments, "--");
        const std::string missing = missing_ones(app);
        throw UsageError(app.get_name() + ": " + (missing.empty() ? error.what() : "missing: " + missing),
                         help);
    } catch (const CLI::ParseError& error) {
        throw UsageError(app.get_name() + ": " + error.what(), help);
    }
    return true;
}

std::string call_of(const OptionParser& parser) {
    const CLI::App& app = parser.cli();
    // Rank 0 alone writes and prints. What the files of the others hold is compared when they are read.
    static const std::set<std::string> of_rank_0 = {"--out", "--output", "--json"},
                                       files = {"--config", "--run", "--checkpoint", "--data"};
    std::string text = app.get_name();
    for (const CLI::Option* option : app.get_options()) {
        const std::string name = option->get_name();
        if (option->count() == 0 || option->get_positional() || of_rank_0.contains(name) ||
            files.contains(name))
            continue;
        text += " " + name;
        if (option->get_items_expected_max() == 0 || name == "--replay")
            continue;  // a flag, or read by rank 0
        for (const std::string& value : option->results()) text += " " + value;
    }
    return text;
}

bool asks_for_help(const Arguments& arguments) {
    const auto end = std::find(arguments.begin(), arguments.end(), "--");
    return std::any_of(arguments.begin(), end,
                       [](const std::string& word) { return word == "--help" || word == "-h"; });
}

}  // namespace tutti
