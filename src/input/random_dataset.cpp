#include "tutti/input/random_dataset.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "gather.hpp"
#include "random_pool.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/random.hpp"

namespace tutti {
namespace {

/// The second numbers of their addresses.
constexpr std::uint64_t of_bytes = 0, of_labels = 1, of_targets = 2;

class RandomDataset final : public Dataset {
  public:
    RandomDataset(const Shape& sample_shape, std::int64_t samples, std::int64_t classes, std::int64_t seed,
                  std::int64_t targets)
        : labels_(seed, RandomPlace::augmentation, of_labels, 0) {
        info_.samples = samples;
        info_.sample_shape = sample_shape;
        info_.labelled = targets == 0;
        info_.classes = info_.labelled ? classes : 0;
        info_.targets = targets;
        in_pool_ = std::clamp<std::int64_t>(random_pool_bytes / info_.sample_bytes(), 1, samples);
        const RandomStream bytes(seed, RandomPlace::augmentation, of_bytes, 0);
        pool_.resize(static_cast<std::size_t>(in_pool_ * info_.sample_bytes()));
        for (std::size_t i = 0; i < pool_.size(); i += 16) {
            const auto bits = bytes.bits(i / 16);
            std::memcpy(pool_.data() + i, bits.data(), std::min<std::size_t>(16, pool_.size() - i));
        }
        const RandomStream numbers(seed, RandomPlace::augmentation, of_targets, 0);
        targets_.resize(static_cast<std::size_t>(samples * targets));
        const bool places = targets == 2 && sample_shape.rank() == 3;
        if (places) info_.target_names = {"x", "y"};
        for (std::size_t i = 0; i < targets_.size(); ++i)
            targets_[i] = static_cast<float>(places ? numbers.uniform(i) *
                                                          static_cast<double>(sample_shape[1 - i % 2] - 1)
                                                    : numbers.normal(i));
    }

    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "random data"; }

    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        const auto bytes = static_cast<std::size_t>(info_.sample_bytes());
        std::array<std::int64_t, 64> places;
        for (std::size_t first = 0; first < indices.size(); first += places.size()) {
            const std::size_t count = std::min(places.size(), indices.size() - first);
            for (std::size_t i = 0; i < count; ++i) places[i] = indices[first + i] % in_pool_;
            gather(pool_.data(), bytes, std::span(places).first(count), samples.data() + first * bytes);
        }
        read_labels(indices, labels);
    }
    void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const override {
        if (!info_.labelled) {
            std::ranges::fill(labels.first(indices.size()), 0);
            return;
        }
        for (std::size_t i = 0; i < indices.size(); ++i)
            labels[i] = labels_.bits(static_cast<std::uint64_t>(indices[i]))[0] % info_.classes;
    }

    std::span<const float> targets() const override { return targets_; }

  private:
    const RandomStream labels_;
    DatasetInfo info_;
    std::int64_t in_pool_ = 0;
    std::vector<std::byte> pool_;
    std::vector<float> targets_;
};

}  // namespace

std::unique_ptr<Dataset> make_random_dataset(const Shape& sample_shape, std::int64_t samples,
                                             std::int64_t classes, std::int64_t seed, std::int64_t targets) {
    if (sample_shape.rank() == 0 ||
        std::any_of(sample_shape.begin(), sample_shape.end(), [](std::int64_t size) { return size < 1; }))
        throw UsageError("random data of shape " + to_string(sample_shape),
                         "every dimension must be at least 1");
    // Its pool holds one at least.
    std::int64_t count = 1;
    for (const std::int64_t size : sample_shape)
        if (__builtin_mul_overflow(count, size, &count) || count > most_random_targets)
            throw UsageError("random data of shape " + to_string(sample_shape) + " take more than 4 GiB each",
                             "make the samples smaller");
    if (samples < 1 || classes < 1)
        throw UsageError("random data of " + std::to_string(samples) + " samples in " +
                             std::to_string(classes) + " classes",
                         "at least one of each is needed");
    if (targets < 0)
        throw UsageError("random data with " + std::to_string(targets) + " targets", "0 gives labels");
    if (targets > most_random_targets / samples)
        throw UsageError("random data of " + std::to_string(samples) + " samples with " +
                             std::to_string(targets) + " targets each take more than 4 GiB",
                         "use fewer samples: fewer steps, or smaller batches");
    return std::make_unique<RandomDataset>(sample_shape, samples, classes, seed, targets);
}

}  // namespace tutti
