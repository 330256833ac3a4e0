#include "tutti/input/transforms.hpp"

#include <fmt/format.h>

#include <cassert>
#include <chrono>
#include <utility>
#include <vector>

#include "image_pipeline.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// While it lives, the time counts as the augmentation's.
class Timed {
  public:
    explicit Timed(const EpochPositions* at) : sum_(at ? at->transforming : nullptr) {
        if (sum_) begin_ = Clock::now();
    }
    ~Timed() {
        if (sum_) *sum_ += Clock::now() - begin_;
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

  private:
    using Clock = std::chrono::steady_clock;
    std::chrono::duration<double>* sum_;
    Clock::time_point begin_;
};

class TransformedImages final : public Dataset {
  public:
    TransformedImages(std::unique_ptr<Dataset> data, std::span<const TransformSpec> transforms,
                      std::int64_t seed, TransformUse use, const std::optional<PlaceTargets>& place)
        : data_(std::move(data)),
          pipeline_(data_->name(), data_->info().sample_shape, data_->info().dtype, transforms),
          info_(data_->info()),
          seed_(seed),
          use_(use),
          place_(place) {
        info_.sample_shape = pipeline_.output_shape();
    }

    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return data_->name(); }
    std::span<const float> targets() const override { return data_->targets(); }
    void bring_in(BringInPatience& patience) const override { data_->bring_in(patience); }
    std::uint64_t mapped_bytes() const override { return data_->mapped_bytes(); }
    std::uint64_t brought_in_bytes() const override { return data_->brought_in_bytes(); }
    bool waits_for_disk() const override { return data_->waits_for_disk(); }
    bool reads_alone() const override { return data_->reads_alone(); }
    void announce(std::span<const std::int64_t> indices) const override { data_->announce(indices); }
    void expect_reads(double samples) override { data_->expect_reads(samples); }
    std::int64_t stored_sample_bytes() const override { return data_->stored_sample_bytes(); }

    std::size_t reading_bytes(std::int64_t samples) const override {
        if (pipeline_.crops() == 0) return 0;
        return static_cast<std::size_t>(samples * data_->info().sample_bytes()) + pipeline_.spare_bytes();
    }

    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        read_all(nullptr, indices, samples, labels);
    }

    void read_at(const EpochPositions& at, std::span<const std::int64_t> indices,
                 std::span<std::byte> samples, std::span<std::int64_t> labels) const override {
        assert(at.positions.size() == indices.size());
        read_all(use_ == TransformUse::training ? &at : nullptr, indices, samples, labels);
    }

    void targets_at(const EpochPositions& at, std::span<const std::int64_t> indices,
                    std::span<float> out) const override {
        data_->targets_at(at, indices, out);
        if (!place_ || use_ != TransformUse::training) return;
        const auto width = static_cast<std::size_t>(info_.targets);
        const auto x = static_cast<std::size_t>(place_->x), y = static_cast<std::size_t>(place_->y);
        for (std::size_t i = 0; i < indices.size(); ++i)
            pipeline_.move_place(random_of(at, i), out[i * width + x], out[i * width + y]);
    }

    void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const override {
        data_->read_labels(indices, labels);
    }

  private:
    /// at: null for evaluation.
    void read_all(const EpochPositions* at, std::span<const std::int64_t> indices,
                  std::span<std::byte> samples, std::span<std::int64_t> labels) const {
        const auto bytes = static_cast<std::size_t>(info_.sample_bytes());
        assert(samples.size() == indices.size() * bytes && labels.size() == indices.size());
        if (pipeline_.crops() == 0) {
            data_->read(indices, samples, labels);
            const Timed timed(at);
            for (std::size_t i = 0; i < indices.size(); ++i)
                apply(at, i, samples.data() + i * bytes, nullptr, nullptr);
            return;
        }
        // The images as they are stored, and behind them what one image needs on its way.
        thread_local std::vector<std::byte> memory;
        const auto stored = static_cast<std::size_t>(data_->info().sample_bytes());
        const std::size_t images = indices.size() * stored;
        if (memory.size() < images + pipeline_.spare_bytes()) memory.resize(images + pipeline_.spare_bytes());
        data_->read(indices, std::span(memory).first(images), labels);
        const Timed timed(at);
        for (std::size_t i = 0; i < indices.size(); ++i)
            apply(at, i, memory.data() + i * stored, memory.data() + images, samples.data() + i * bytes);
    }

    RandomStream random_of(const EpochPositions& at, std::size_t i) const {
        return {seed_, RandomPlace::augmentation, static_cast<std::uint64_t>(at.epoch),
                static_cast<std::uint64_t>(at.positions[i])};
    }

    void apply(const EpochPositions* at, std::size_t i, std::byte* image, std::byte* spare,
               std::byte* out) const {
        if (!at) return pipeline_.apply(nullptr, image, spare, out);
        const RandomStream random = random_of(*at, i);
        pipeline_.apply(&random, image, spare, out);
    }

    std::unique_ptr<Dataset> data_;
    ImagePipeline pipeline_;
    DatasetInfo info_;
    std::int64_t seed_;
    TransformUse use_;
    std::optional<PlaceTargets> place_;
};

/// Flips and crops move pixels, and a target may be a place in the image, which would have to move, too.
[[noreturn]] void fail_moving(const Dataset& data, const TransformSpec& spec, bool places_are_known) {
    throw UsageError(
        "data.transforms: " + to_text(spec) + " moves pixels, but " + data.name() +
            " has targets, which may be places in the image and would not move",
        places_are_known
            ? "remove it: of the transforms only flips and random_erasing are for places"
            : "remove it: only random_erasing is for any targets; flips also for those of a locator, and for "
              "two that are named x and y (x_pix, y_pix; cx, cy)");
}

}  // namespace

void check_places(const Dataset& data, const PlaceTargets& place) {
    const DatasetInfo& info = data.info();
    const std::span<const float> targets = data.targets();
    const struct {
        std::int64_t target, pixels;
    } axes[] = {{place.x, info.sample_shape[1]}, {place.y, info.sample_shape[0]}};
    for (std::int64_t sample = 0; sample < info.samples; ++sample)
        for (const auto& [target, pixels] : axes) {
            const float value = targets[static_cast<std::size_t>(sample * info.targets + target)];
            if (value >= -0.5F && value <= static_cast<float>(pixels) - 0.5F) continue;
            throw DataError(
                fmt::format(
                    "{}: sample {} has {} {}, outside of its {} pixels, so a flip (data.transforms) cannot "
                    "move it with the pixels",
                    data.name(), sample, info.target_names[static_cast<std::size_t>(target)], value, pixels),
                "pack places in pixels of the samples (trainer pack images --target-pixels), or remove the "
                "flip");
        }
}

std::unique_ptr<Dataset> transform_images(std::unique_ptr<Dataset> data,
                                          std::span<const TransformSpec> transforms, std::int64_t seed,
                                          TransformUse use, const std::optional<PlaceTargets>& place) {
    if (transforms.empty()) return data;
    if (data->info().targets > 0 && data->info().sample_shape.rank() == 3)
        for (const TransformSpec& spec : transforms)
            if (spec.kind != TransformSpec::Kind::random_erasing &&
                !(is_flip(spec) && (place || use == TransformUse::evaluation)))
                fail_moving(*data, spec, place.has_value());
    return std::make_unique<TransformedImages>(std::move(data), transforms, seed, use, place);
}

}  // namespace tutti
