#include "command_line.hpp"

#include <algorithm>
#include <iostream>

#include "tutti/base/config.hpp"
#include "tutti/base/error.hpp"
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

/// "--batch_size", where a key=value is meant: the keys of that name.
std::string key_remedy(const std::string& flag) {
    std::string leaf = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
    std::replace(leaf.begin(), leaf.end(), '-', '_');
    std::string keys;
    for (const ConfigKey& key : config_reference())
        if (key.path.substr(key.path.rfind('.') + 1) == leaf)
            keys += (keys.empty() ? "write " : " or ") + key.path + "=…";
    return keys;
}

}  // namespace

bool is_first_rank() {
    return read_launch(current_environment()).rank.value_or(0) == 0;
}

bool parse_arguments(CLI::App& app, const Arguments& arguments) {
    const std::string help = "run " + app.get_name() + " --help";
    try {
        Arguments reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them from the back
        app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
        if (is_first_rank()) std::cout << app.help();
        return false;
    } catch (const CLI::ExtrasError&) {
        const std::vector<std::string> known = flags_of(app);
        for (const std::string& argument : arguments) {
            const std::string flag = argument.substr(0, argument.find('='));
            if (!flag.starts_with("-") || std::find(known.begin(), known.end(), flag) != known.end())
                continue;
            const std::string near = nearest(flag, known);
            const std::string key = key_remedy(flag);
            throw UsageError(flag + " is not an option of " + app.get_name(),
                             !near.empty()  ? "did you mean " + near + "?"
                             : !key.empty() ? key
                                            : help);
        }
        throw UsageError(app.get_name() + ": " + app.remaining().front() + " was not expected", help);
    } catch (const CLI::ParseError& error) {
        throw UsageError(app.get_name() + ": " + error.what(), help);
    }
    return true;
}

}  // namespace tutti
