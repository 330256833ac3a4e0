#pragma once
// Whether a bench can have the memory that its batch needs, before it takes any.

#include "training_recipe.hpp"

namespace tutti {

/// Bytes that a rank needs at least to train with this batch, in the host's memory: parameters, gradients,
/// activations and the batches held ready. Of the graph's activations those of a batch of 2 and of 4 tell
/// how they grow with the batch; what shares memory there does so in larger batches, too. Builds both
/// graphs.
double least_training_bytes(const Config& config, const DatasetInfo& data, Device& device, int world);

/// open_training for a bench. Where the ranks of a host need more than there is in it (available_bytes()),
/// all ranks throw AgreedError with ExitCode::usage, which names both and the batch that may fit.
TrainingInputs open_bench_data(const JobStart& start, const Config& config,
                               const std::function<std::unique_ptr<Dataset>()>& make_data);

}  // namespace tutti
