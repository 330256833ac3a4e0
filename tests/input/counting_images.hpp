#pragma once
// Images whose elements tell their place, and what transforms make of them.

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tutti/input/transforms.hpp"

namespace tutti::test {

/// Image i has the elements 1 + i, 2 + i, … in order of memory.
class CountingImages final : public Dataset {
  public:
    std::chrono::milliseconds takes{0};  ///< to read

    explicit CountingImages(Shape shape, std::int64_t samples = 1, DType dtype = DType::u8) {
        info_.samples = samples;
        info_.sample_shape = shape;
        info_.dtype = dtype;
        info_.classes = 1;
    }
    void give_targets(std::int64_t each) {
        info_.targets = each;
        targets_.assign(static_cast<std::size_t>(each * info_.samples), 0.5F);
    }
    std::span<const float> targets() const override { return targets_; }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "counting"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        std::this_thread::sleep_for(takes);
        const std::int64_t count = info_.sample_shape.count();
        for (std::size_t i = 0; i < indices.size(); ++i)
            for (std::int64_t k = 0; k < count; ++k) {
                const std::int64_t at = static_cast<std::int64_t>(i) * count + k, value = 1 + indices[i] + k;
                if (info_.dtype == DType::f32)
                    reinterpret_cast<float*>(samples.data())[at] = static_cast<float>(value);
                else
                    samples[static_cast<std::size_t>(at)] = static_cast<std::byte>(value);
            }
        std::ranges::fill(labels, 0);
    }

  private:
    DatasetInfo info_;
    std::vector<float> targets_;
};

inline std::unique_ptr<Dataset> transformed(Shape shape, const std::vector<TransformSpec>& specs,
                                            TransformUse use = TransformUse::training,
                                            DType dtype = DType::u8, std::int64_t samples = 1) {
    return transform_images(std::make_unique<CountingImages>(shape, samples, dtype), specs, 7, use);
}

/// Sample 0 at a position of an epoch.
template <class Value = int>
std::vector<Value> image_at(const Dataset& data, std::int64_t position, std::int64_t epoch = 0) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(data.info().sample_bytes()));
    std::vector<std::int64_t> labels(1);
    const std::vector<std::int64_t> indices{0}, positions{position};
    data.read_at({epoch, positions}, indices, bytes, labels);
    std::vector<Value> values;
    for (std::int64_t k = 0; k < data.info().sample_shape.count(); ++k)
        values.push_back(data.info().dtype == DType::f32
                             ? static_cast<Value>(reinterpret_cast<const float*>(bytes.data())[k])
                             : static_cast<Value>(bytes[static_cast<std::size_t>(k)]));
    return values;
}

}  // namespace tutti::test
