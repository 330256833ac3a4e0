#include <algorithm>
#include <cstring>

#include "random_pool.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/random.hpp"
#include "tutti/input/random_dataset.hpp"

namespace tutti {
namespace {

/// The second numbers of their addresses.
constexpr std::uint64_t of_features = 0, of_segments = 1;

class RandomSequences final : public Dataset {
  public:
    RandomSequences(const Shape& sample_shape, std::int64_t samples, std::int64_t seed) {
        const std::int64_t steps = sample_shape[0], width = sample_shape[1];
        constexpr std::int64_t most_values = std::int64_t{1} << 32;
        if (steps > most_values / width)
            throw UsageError("sequences of shape " + to_string(sample_shape) + " are larger than 16 GiB each",
                             "give fewer steps or features");
        info_.samples = samples;
        info_.sample_shape = sample_shape;
        info_.dtype = DType::f32;
        info_.labelled = false;
        info_.targets = 2 * steps;
        info_.target_kind = target_kinds::segments;
        in_pool_ = std::clamp<std::int64_t>(random_pool_bytes / info_.sample_bytes(), 1, samples);
        const RandomStream features(seed, RandomPlace::augmentation, of_features, 0);
        pool_.resize(static_cast<std::size_t>(in_pool_ * sample_shape.count()));
        for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = static_cast<float>(features.normal(i));
        for (std::int64_t step = 0; step < in_pool_ * steps; ++step)
            pool_[static_cast<std::size_t>(step * width + width - 1)] = 1;
        place_segments(RandomStream(seed, RandomPlace::augmentation, of_segments, 0));
    }

    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "random data"; }

    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        const auto bytes = static_cast<std::size_t>(info_.sample_bytes());
        const std::span<const std::byte> pool = std::as_bytes(std::span(pool_));
        for (std::size_t i = 0; i < indices.size(); ++i)
            std::memcpy(samples.data() + i * bytes,
                        pool.data() + static_cast<std::size_t>(indices[i] % in_pool_) * bytes, bytes);
        read_labels(indices, labels);
    }
    void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const override {
        std::ranges::fill(labels.first(indices.size()), 0);
    }

    std::span<const float> targets() const override { return targets_; }

  private:
    void place_segments(const RandomStream& places) {
        const std::int64_t steps = info_.sample_shape[0];
        const std::int64_t length = std::max<std::int64_t>(1, steps / 4);
        targets_.assign(static_cast<std::size_t>(info_.samples * info_.targets), -1.0F);
        for (std::int64_t sample = 0; sample < info_.samples; ++sample) {
            const std::int64_t begin =
                places.bits(static_cast<std::uint64_t>(sample))[0] % (steps - length + 1);
            for (std::int64_t t = 0; t < length; ++t) {
                const auto at = static_cast<std::size_t>(sample * info_.targets + 2 * (begin + t));
                targets_[at] = static_cast<float>(t);
                targets_[at + 1] = static_cast<float>(length - t);
            }
        }
    }

    DatasetInfo info_;
    std::int64_t in_pool_ = 0;
    std::vector<float> pool_, targets_;
};

}  // namespace

std::unique_ptr<Dataset> make_random_sequences(const Shape& sample_shape, std::int64_t samples,
                                               std::int64_t seed) {
    if (sample_shape.rank() != 2 || sample_shape[0] < 1 || sample_shape[1] < 2)
        throw UsageError(
            "random sequences of shape " + to_string(sample_shape),
            "at least one step of two features is needed, the last of which says that it exists");
    if (samples < 1)
        throw UsageError("random data of " + std::to_string(samples) + " sequences",
                         "at least one is needed");
    if (sample_shape[0] > most_random_targets / 2 / samples)
        throw UsageError("the targets of " + std::to_string(samples) + " random sequences of " +
                             std::to_string(sample_shape[0]) + " steps take more than 4 GiB",
                         "use fewer samples: fewer steps, or smaller batches");
    return std::make_unique<RandomSequences>(sample_shape, samples, seed);
}

}  // namespace tutti
