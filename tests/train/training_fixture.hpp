#pragma once
// Small trainings in memory, on ranks that are threads.

#include <algorithm>

#include "support/thread_communicator.hpp"
#include "tutti/base/log.hpp"
#include "tutti/device/device.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::test {

/// Sample i of 8 bytes, in any shape, is (37·i + 11·k) mod 251 at k; its label is i mod 4.
class PatternDataset final : public Dataset {
  public:
    explicit PatternDataset(std::int64_t samples, const Shape& shape = {8}) {
        info_.samples = samples;
        info_.sample_shape = shape;
        info_.classes = 4;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "pattern"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        for (std::size_t i = 0; i < indices.size(); ++i) {
            labels[i] = indices[i] % 4;
            for (std::size_t k = 0; k < 8; ++k)
                samples[8 * i + k] =
                    static_cast<std::byte>((37 * static_cast<std::size_t>(indices[i]) + 11 * k) % 251);
        }
    }

  private:
    DatasetInfo info_;
};

/// Calls `body` with the job of each rank: on 50 samples, by default an mlp of three layers with parameters;
/// by model.layers another one.
template <class Body>
void run_training(int ranks, const std::vector<std::string>& settings, const Body& body,
                  const Shape& shape = {8}, int threads = 1) {
    run_on_threads(ranks, [&](Communicator& world) {
        std::vector<std::string> given{"train.batch_size=4", "data.workers=0"};
        const bool has_layers = std::any_of(settings.begin(), settings.end(), [](const std::string& setting) {
            return setting.starts_with("model.layers");
        });
        if (!has_layers) given.emplace_back("model.hidden=[6, 5]");
        given.insert(given.end(), settings.begin(), settings.end());
        const Config config = parse_config("", "test.yaml", given);
        const auto device = make_cpu_device(threads);
        const auto gradients = world.duplicate(), control = world.duplicate();
        Log log(1, 2, "test", LogLevel::error);  // not rank 0's: silent
        const PatternDataset data(50, shape);
        body(TrainingJob{config, *device, *gradients, *control, log, nullptr, data, nullptr});
    });
}

}  // namespace tutti::test
