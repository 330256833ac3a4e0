#pragma once
// Whether a bench can have the memory that it needs, before it takes any.

#include <cstdint>
#include <optional>
#include <string>

#include "training_recipe.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

/// Bytes that a rank needs at least to train, in the host's memory.
struct MemoryNeed {
    /// Parameters, gradients and the order of a data set's samples.
    double fixed = 0;
    /// Of a micro-batch: activations, the batches held ready, the order of samples that are made.
    double per_sample = 0;
    double bytes(std::int64_t samples) const { return fixed + static_cast<double>(samples) * per_sample; }
};

/// Of the graph's activations those of a batch of 2 and of 4 tell how they grow with the batch; what shares
/// memory there does so in larger batches, too. Builds both graphs. The order of the samples is not in it.
MemoryNeed least_training_memory(const Config& config, const DatasetInfo& data, Device& device);

/// What is asked for, and of whom.
struct MemoryRequest {
    std::int64_t batch_size = 1;   ///< train.batch_size
    std::int64_t micro_batch = 1;  ///< of it, in one pass (largest_micro_batch)
    std::string model, host;
    std::int64_t ranks = 1;  ///< of the host
};

/// What to say where so many bytes of the host are too few: with a train.batch_size for which half of what
/// the fixed part leaves suffices, or all of it for 1; where not even 1 fits, with the number of ranks that
/// would. Nothing where there are enough. Pure.
std::optional<UsageError> too_little_memory(const MemoryNeed& need, const MemoryRequest& request,
                                            double have);

/// What to say where a buffer of so many bytes in each of the host's ranks is more than there is. Nothing
/// where it is not. Pure.
std::optional<UsageError> too_large_buffer(double bytes, std::int64_t ranks, const std::string& host,
                                           double have);
/// Collective. Where the ranks of a host need more for such a buffer each than there is in it
/// (obtainable_bytes()), all ranks throw AgreedError with ExitCode::usage, as too_large_buffer() says.
void check_buffer_memory(const JobStart& start, Communicator& control, double bytes);

/// open_training for a bench. Where the ranks of a host need more than there is in it (obtainable_bytes()),
/// all ranks throw AgreedError with ExitCode::usage, as too_little_memory() says.
TrainingInputs open_bench_data(const JobStart& start, const Config& config,
                               const std::function<std::unique_ptr<Dataset>()>& make_data);

}  // namespace tutti
