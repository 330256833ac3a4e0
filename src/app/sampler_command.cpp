#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "command_line.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {
namespace {

void require_at_least(const char* flag, std::int64_t value, std::int64_t least) {
    if (value < least)
        throw UsageError(fmt::format("{} is {}", flag, value), fmt::format("it must be {} or more", least));
}

void check(const SamplerOptions& options, std::int64_t rank) {
    require_at_least("--samples", options.samples, 0);
    require_at_least("--world", options.world_size, 1);
    require_at_least("--epoch", options.epoch, 0);
    if (rank < 0 || rank >= options.world_size)
        throw UsageError(fmt::format("--rank is {}, but --world is {}", rank, options.world_size),
                         "ranks are counted from 0");
    // The whole epoch's list is made, padding included.
    const double bytes = (static_cast<double>(options.samples) + static_cast<double>(options.world_size)) *
                         static_cast<double>(sizeof(std::int64_t));
    const double memory =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    if (bytes > memory)
        throw UsageError(fmt::format("the order of {} samples on {} ranks takes {:.0f} GB, more than this "
                                     "machine's memory",
                                     options.samples, options.world_size, bytes / 1e9),
                         "check --samples and --world");
}

}  // namespace

int sampler_command(const Arguments& arguments) {
    OptionParser parser(
        "Prints the sample indices of one rank, one a line, as PyTorch's DistributedSampler gives them.",
        "trainer sampler");
    SamplerOptions options;
    std::int64_t rank = 0;
    bool no_shuffle = false;
    parser.add_option("--samples", options.samples, "number of samples in the data set")
        .whole_number()
        .required();
    parser.add_option("--world", options.world_size, "number of ranks").whole_number().required();
    parser.add_option("--rank", rank, "the rank, from 0").whole_number().required();
    parser.add_option("--seed", options.seed, "run.seed").whole_number().show_default();
    parser.add_option("--epoch", options.epoch, "the epoch, from 0").whole_number().show_default();
    parser.add_flag("--no-shuffle", no_shuffle, "in order (data.shuffle: false)");
    parser.add_flag("--drop-last", options.drop_last, "leave out the tail (data.drop_last: true)");
    if (!parse_arguments(parser, arguments)) return 0;
    options.shuffle = !no_shuffle;
    check(options, rank);
    fmt::memory_buffer text;
    for (const std::int64_t index : rank_order(options, rank))
        fmt::format_to(std::back_inserter(text), "{}\n", index);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
}

}  // namespace tutti
