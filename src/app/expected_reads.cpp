#include "expected_reads.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {

double training_reads(const Config& config, std::int64_t samples, std::int64_t world) {
    // In floating point: epochs of 10^9 samples may be as many.
    const double epochs = static_cast<double>(config.train.epochs) * static_cast<double>(samples);
    if (!config.train.max_steps) return epochs;
    const double update = static_cast<double>(config.train.batch_size) *
                          static_cast<double>(config.train.accumulate) * static_cast<double>(world);
    return std::min(epochs, static_cast<double>(*config.train.max_steps) * update);
}

double validation_reads(const Config& config, std::int64_t samples, std::int64_t validation_samples,
                        std::int64_t world) {
    double evaluations = 1;
    if (config.train.eval_every > 0 && samples > 0) {
        const double epochs = training_reads(config, samples, world) / static_cast<double>(samples);
        evaluations = std::max(1.0, std::floor(epochs / static_cast<double>(config.train.eval_every)));
    }
    return evaluations * static_cast<double>(validation_samples);
}

double reads_on_host(double reads, std::span<const RankPlace> places, std::size_t rank) {
    return reads * static_cast<double>(ranks_beside(places, rank)) / static_cast<double>(places.size());
}

}  // namespace tutti
