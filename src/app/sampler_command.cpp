#include <fmt/format.h>

#include <cstdio>

#include "command_line.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {

int sampler_command(const Arguments& arguments) {
    CLI::App app(
        "Prints the sample indices of one rank, one a line, as PyTorch's DistributedSampler gives them.",
        "trainer sampler");
    SamplerOptions options;
    std::int64_t rank = 0;
    bool no_shuffle = false;
    app.add_option("--samples", options.samples, "number of samples in the data set")->required();
    app.add_option("--world", options.world_size, "number of ranks")->required();
    app.add_option("--rank", rank, "the rank, from 0")->required();
    app.add_option("--seed", options.seed, "run.seed")->capture_default_str();
    app.add_option("--epoch", options.epoch, "the epoch, from 0")->capture_default_str();
    app.add_flag("--no-shuffle", no_shuffle, "in order (data.shuffle: false)");
    app.add_flag("--drop-last", options.drop_last, "leave out the tail (data.drop_last: true)");
    if (!parse_arguments(app, arguments)) return 0;
    options.shuffle = !no_shuffle;
    if (rank < 0 || rank >= options.world_size)
        throw UsageError(
            "--rank is " + std::to_string(rank) + ", but --world is " + std::to_string(options.world_size),
            "ranks are counted from 0");
    fmt::memory_buffer text;
    for (const std::int64_t index : rank_order(options, rank))
        fmt::format_to(std::back_inserter(text), "{}\n", index);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
}

}  // namespace tutti
