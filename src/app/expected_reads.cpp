#include "expected_reads.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

double samples_of_update(const Config& config, std::int64_t world) {
    return static_cast<double>(config.train.batch_size) * static_cast<double>(config.train.accumulate) *
           static_cast<double>(world);
}

}  // namespace

double training_reads(const Config& config, std::int64_t samples, std::int64_t world) {
    // In floating point: epochs of 10^9 samples may be as many.
    const double epochs = static_cast<double>(config.train.epochs) * static_cast<double>(samples);
    if (!config.train.max_steps) return epochs;
    return std::min(epochs, static_cast<double>(*config.train.max_steps) * samples_of_update(config, world));
}

double validation_reads(const Config& config, std::int64_t samples, std::int64_t validation_samples,
                        std::int64_t world) {
    const Interval& every = config.train.eval_every;
    double evaluations = 1;
    if (every.count > 0 && samples > 0) {
        const double between = every.unit == Interval::Unit::epochs ? static_cast<double>(samples)
                                                                    : samples_of_update(config, world);
        const double reads = training_reads(config, samples, world);
        evaluations = std::max(1.0, std::floor(reads / (between * every.count)));
    }
    return evaluations * static_cast<double>(validation_samples);
}

double reads_on_host(double reads, std::span<const RankPlace> places, std::size_t rank) {
    return reads * static_cast<double>(ranks_beside(places, rank)) / static_cast<double>(places.size());
}

}  // namespace tutti
