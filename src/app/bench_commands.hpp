#pragma once
// What `trainer bench` measures: one function per subcommand.

#include "commands.hpp"

namespace tutti {

int bench_kernels_command(const Arguments& arguments);

}  // namespace tutti
