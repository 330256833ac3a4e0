#pragma once
// What all subcommands do with their command line.

#include <string>

#include "commands.hpp"
#include "option_parser.hpp"

namespace tutti {

/// Whether this is the first rank of the job, as far as the environment tells; MPI need not run yet.
bool is_first_rank();

/// Whether this process says what each process of a launch finds for itself: the first rank does, and so does
/// one that has no launcher above it. Variables of another rank may be left over in a shell, whose only
/// process would say nothing.
bool speaks_for_launch();
/// What to do where the variables that say so are left over; empty where a launcher is seen or none is meant.
std::string remedy_for_left_over_variables();

/// Parses `arguments`. Returns false after printing the help (where speaks_for_launch) (the command is then
/// done). Throws UsageError that suggests the nearest flag.
bool parse_arguments(OptionParser& parser, const Arguments& arguments);

/// What a parsed command line asks of every rank: the command and its options, as "trainer predict
/// --embeddings". Without key=value words, which configs are compared by, without the paths of what is read,
/// which may lie elsewhere on every host, and without what only rank 0 writes and prints.
std::string call_of(const OptionParser& parser);

/// Whether the answer to `arguments` is a help text.
bool asks_for_help(const Arguments& arguments);

}  // namespace tutti
