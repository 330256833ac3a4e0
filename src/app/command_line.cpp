#include "command_line.hpp"

#include <algorithm>
#include <iostream>

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
            throw UsageError(flag + " is not an option of " + app.get_name(),
                             near.empty() ? help : "did you mean " + near + "?");
        }
        throw UsageError(app.get_name() + ": " + app.remaining().front() + " was not expected", help);
    } catch (const CLI::ParseError& error) {
        throw UsageError(app.get_name() + ": " + error.what(), help);
    }
    return true;
}

}  // namespace tutti
