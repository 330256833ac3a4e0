#pragma once
// What all subcommands do with their command line.

#include <string>

#include "commands.hpp"
#include "option_parser.hpp"

namespace tutti {

/// Whether this is the first rank of the job, as far as the environment tells; MPI need not run yet.
bool is_first_rank();

/// Parses `arguments`. Returns false after printing the help (on the first rank) (the command is then done).
/// Throws UsageError that suggests the nearest flag.
bool parse_arguments(OptionParser& parser, const Arguments& arguments);

/// What a parsed command line asks of every rank: the command and its options, as "trainer predict
/// --embeddings". Without key=value words, which configs are compared by, without the paths of what is read,
/// which may lie elsewhere on every host, and without what only rank 0 writes and prints.
std::string call_of(const OptionParser& parser);

/// Whether the answer to `arguments` is a help text.
bool asks_for_help(const Arguments& arguments);

}  // namespace tutti
