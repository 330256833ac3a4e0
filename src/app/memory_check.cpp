#include "memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tutti/base/error.hpp"
#include "tutti/base/memory_use.hpp"
#include "tutti/base/units.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

GraphMemory memory_of(const Config& config, const DatasetInfo& data, Device& device, std::int64_t batch) {
    return Graph(build_model(config.model, {data.sample_shape, data.classes}), device,
                 arithmetic_of(config.train.precision), batch, config.train.recompute)
        .memory();
}

std::string text_of(double bytes) {
    return format_bytes(static_cast<std::uint64_t>(std::min(bytes, 1e18)));
}

void check_memory(const JobStart& start, const Config& config, const TrainingInputs& inputs) {
    const auto available = available_bytes();
    // A GPU's memory says itself what does not fit.
    if (!available || inputs.device->kind() != "cpu") return;
    const int world = start.world.size();
    const double needed = least_training_bytes(config, inputs.train->info(), *inputs.device, world);
    const std::string& host = inputs.places[static_cast<std::size_t>(start.world.rank())].host;
    const auto ranks = std::ranges::count(inputs.places, host, &RankPlace::host);
    const double all = needed * static_cast<double>(ranks), have = static_cast<double>(*available);
    if (all <= have) return;
    throw UsageError(
        fmt::format("train.batch_size {} needs at least {} of memory for {} on {}, where {} can be had",
                    config.train.batch_size, text_of(all),
                    ranks == 1 ? "the rank" : fmt::format("the {} ranks", ranks), host, text_of(have)),
        fmt::format(
            "set train.batch_size to less, {} for example",
            std::max(std::floor(static_cast<double>(config.train.batch_size) * have / all / 2), 1.0)));
}

}  // namespace

double least_training_bytes(const Config& config, const DatasetInfo& data, Device& device, int world) {
    const std::int64_t batch = largest_micro_batch(config, world);
    const GraphMemory two = memory_of(config, data, device, 2);
    const double per_sample = (static_cast<double>(memory_of(config, data, device, 4).activations) -
                               static_cast<double>(two.activations)) /
                              2;
    const double held =
        1 + (loader_workers(config.data) == 0 ? 0 : static_cast<double>(config.data.prefetch));
    const auto samples = static_cast<double>(batch);
    return static_cast<double>(two.parameters + two.gradients) + samples * per_sample +
           held * samples * static_cast<double>(data.sample_bytes()) +
           static_cast<double>(data.samples) * sizeof(std::int64_t);
}

TrainingInputs open_bench_data(const JobStart& start, const Config& config,
                               const std::function<std::unique_ptr<Dataset>()>& make_data) {
    TrainingInputs inputs = open_training(start, config, false, make_data);
    together(start.world, "looking at the memory", [&] { check_memory(start, config, inputs); });
    return inputs;
}

}  // namespace tutti
