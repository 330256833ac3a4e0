#include "memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tutti/base/error.hpp"
#include "tutti/base/memory_use.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

GraphMemory memory_of(const Config& config, const DatasetInfo& data, Device& device, std::int64_t batch) {
    return Graph(build_model_for(config.model, model_input(data, config.data), data), device,
                 arithmetic_of(config.train.precision), batch, config.train.recompute)
        .memory();
}

std::string text_of(double bytes) {
    return format_bytes(static_cast<std::uint64_t>(std::min(bytes, 1e18)));
}

void check_memory(const JobStart& start, const Config& config, const TrainingInputs& inputs, bool made) {
    const auto obtainable = obtainable_bytes();
    // A GPU's memory says itself what does not fit.
    if (!obtainable || inputs.device->kind() != "cpu") return;
    MemoryRequest request{config.train.batch_size, largest_micro_batch(config, start.world.size()),
                          config.model.name.empty() ? "layers" : config.model.name,
                          inputs.places[static_cast<std::size_t>(start.world.rank())].host};
    request.ranks = std::ranges::count(inputs.places, request.host, &RankPlace::host);
    MemoryNeed need = least_training_memory(config, inputs.train->info(), *inputs.device);
    const double order = static_cast<double>(inputs.train->info().samples) * sizeof(std::int64_t);
    // Of made data there are as many as the batches of the bench take.
    if (made)
        need.per_sample += order / static_cast<double>(request.micro_batch);
    else
        need.fixed += order;
    if (const auto refusal = too_little_memory(need, request, static_cast<double>(*obtainable)))
        throw UsageError(*refusal);
}

}  // namespace

MemoryNeed least_training_memory(const Config& config, const DatasetInfo& data, Device& device) {
    const GraphMemory two = memory_of(config, data, device, 2);
    const double activations = (static_cast<double>(memory_of(config, data, device, 4).activations) -
                                static_cast<double>(two.activations)) /
                               2;
    const double held =
        1 + (loader_workers(config.data) == 0 ? 0 : static_cast<double>(config.data.prefetch));
    return {static_cast<double>(two.parameters + two.gradients),
            activations + held * static_cast<double>(data.sample_bytes())};
}

std::optional<UsageError> too_little_memory(const MemoryNeed& need, const MemoryRequest& request,
                                            double have) {
    const auto ranks = static_cast<double>(request.ranks);
    const double all = need.bytes(request.micro_batch) * ranks;
    if (all <= have) return std::nullopt;
    const std::string whose = request.ranks == 1 ? "the rank" : fmt::format("the {} ranks", request.ranks);
    const double fitting = (have / ranks - need.fixed) / std::max(need.per_sample, 1.0);
    if (fitting >= 1) {
        // A pass takes this part of train.batch_size.
        const double part =
            static_cast<double>(request.micro_batch) / static_cast<double>(request.batch_size);
        return UsageError(
            fmt::format("train.batch_size {} needs at least {} of memory for {} on {}, where {} can be had",
                        request.batch_size, text_of(all), whose, request.host, text_of(have)),
            fmt::format("set train.batch_size to less, {} for example",
                        std::max(std::floor(std::floor(fitting / 2) / part), 1.0)));
    }
    const double one = need.bytes(1), most = std::floor(have / one);
    return UsageError(
        fmt::format("model {} needs at least {} of memory for {} on {}, also with train.batch_size 1, "
                    "where {} can be had",
                    request.model, text_of(one * ranks), whose, request.host, text_of(have)),
        most < 1 ? "choose a smaller model"
                 : fmt::format("start {} {} there, or choose a smaller model", most,
                               most == 1 ? "rank" : "ranks at most"));
}

std::optional<UsageError> too_large_buffer(double bytes, std::int64_t ranks, const std::string& host,
                                           double have) {
    const double all = bytes * static_cast<double>(ranks);
    if (all <= have) return std::nullopt;
    return UsageError(
        fmt::format("a buffer of {} for {} on {} needs {} of memory, where {} can be had", text_of(bytes),
                    ranks == 1 ? "the rank" : fmt::format("each of the {} ranks", ranks), host, text_of(all),
                    text_of(have)),
        fmt::format("measure smaller sizes, below {}", text_of(have / static_cast<double>(ranks))));
}

void check_buffer_memory(const JobStart& start, Communicator& control, double bytes) {
    together(control, "looking at the memory", [&] {
        const auto have = obtainable_bytes();
        if (!have) return;
        if (const auto refusal = too_large_buffer(bytes, start.session.local_size(), start.session.host(),
                                                  static_cast<double>(*have)))
            throw UsageError(*refusal);
    });
}

TrainingInputs open_bench_data(const JobStart& start, const Config& config,
                               const std::function<std::unique_ptr<Dataset>()>& make_data) {
    TrainingInputs inputs = open_training(start, config, false, make_data);
    together(start.world, "looking at the memory",
             [&] { check_memory(start, config, inputs, bool(make_data)); });
    return inputs;
}

}  // namespace tutti
