#pragma once
// What all subcommands do with CLI11.

#include <CLI/CLI.hpp>
#include <string>

#include "commands.hpp"

namespace tutti {

/// Parses `arguments`. Returns false after printing the help (the command is then done). Throws UsageError
/// that suggests the nearest flag.
bool parse_arguments(CLI::App& app, const Arguments& arguments);

}  // namespace tutti
