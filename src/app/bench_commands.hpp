#pragma once
// What `trainer bench` measures: one function per subcommand.

#include "commands.hpp"

namespace tutti {

int bench_allreduce_command(const Arguments& arguments);
int bench_buckets_command(const Arguments& arguments);
int bench_loader_command(const Arguments& arguments);
int bench_kernels_command(const Arguments& arguments);
int bench_step_command(const Arguments& arguments);

}  // namespace tutti
