#pragma once
// The subcommands. Each parses its own arguments, does its work and returns the exit code; errors are thrown.

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// argv without the program's and the subcommand's name.
using Arguments = std::vector<std::string>;

int train_command(const Arguments& arguments);
int eval_command(const Arguments& arguments);
int predict_command(const Arguments& arguments);
int doctor_command(const Arguments& arguments);
int sampler_command(const Arguments& arguments);
int pack_command(const Arguments& arguments);
int inspect_command(const Arguments& arguments);
int export_command(const Arguments& arguments);
int import_command(const Arguments& arguments);
int bench_command(const Arguments& arguments);
int replay_command(const Arguments& arguments);
int plan_command(const Arguments& arguments);

/// `trainer …`: finds the subcommand, turns errors into one line on standard error and the exit code.
int run_trainer(int argc, char** argv);

}  // namespace tutti
