#pragma once
// A data set of which only what surrounds the samples may be read.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tutti/input/dataset.hpp"

namespace tutti::test {

/// Labels and targets without samples, which nobody may read.
class SurroundingsAlone final : public Dataset {
  public:
    SurroundingsAlone(std::vector<std::int64_t> labels, std::vector<float> targets, Shape sample = {3})
        : labels_(std::move(labels)), targets_(std::move(targets)) {
        info_.samples = std::max<std::int64_t>(std::ssize(labels_), 4);
        info_.labelled = !labels_.empty();
        info_.targets = std::ssize(targets_) / info_.samples;
        info_.sample_shape = sample;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "surroundings"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {
        ADD_FAILURE() << "samples are read";
    }
    void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const override {
        for (std::size_t i = 0; i < indices.size(); ++i)
            labels[i] = labels_[static_cast<std::size_t>(indices[i])];
    }
    std::span<const float> targets() const override { return targets_; }

  private:
    DatasetInfo info_;
    const std::vector<std::int64_t> labels_;
    const std::vector<float> targets_;
};

}  // namespace tutti::test
