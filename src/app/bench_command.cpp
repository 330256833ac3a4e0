#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench_commands.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti {
namespace {

struct Bench {
    std::string name, help;
    int (*run)(const Arguments&);
};

const std::vector<Bench>& benches() {
    static const std::vector<Bench> table = {
        {"allreduce", "time and bandwidth of all-reduces against their size", bench_allreduce_command},
        {"buckets", "real training steps under several bucket plans", bench_buckets_command},
        {"loader", "batches from the data against a plain sequential read of the same files",
         bench_loader_command},
        {"step", "one training step: samples/s, share of the GEMM peak, layer by layer", bench_step_command},
        {"kernels", "own CUDA kernels against the time that memory alone takes", bench_kernels_command},
    };
    return table;
}

void print_help() {
    if (read_launch(current_environment()).rank.value_or(0) != 0) return;
    fmt::print("Measured tables, as text and JSON.\n\n");
    for (const Bench& bench : benches()) fmt::print("trainer bench {:<10} {}\n", bench.name, bench.help);
    fmt::print("\ntrainer bench NAME --help tells more. Under MPI: mpirun -np 4 trainer bench NAME\n");
}

}  // namespace

int bench_command(const Arguments& arguments) {
    std::vector<std::string> names;
    for (const Bench& bench : benches()) names.emplace_back(bench.name);
    if (arguments.empty())
        throw UsageError(
            "trainer bench: what to measure is not said",
            fmt::format("name one of {}; trainer bench --help tells more", fmt::join(names, ", ")));
    if (arguments.front() == "--help" || arguments.front() == "-h") {
        print_help();
        return 0;
    }
    for (const Bench& bench : benches())
        if (bench.name == arguments.front())
            return bench.run(Arguments(arguments.begin() + 1, arguments.end()));
    const std::string near = nearest(arguments.front(), names);
    throw UsageError("trainer bench measures no " + arguments.front(),
                     near.empty() ? "run trainer bench --help" : "did you mean " + near + "?");
}

}  // namespace tutti
