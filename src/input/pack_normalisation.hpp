#pragma once
// What --mean and --std of a packer say, checked before data are read.

#include <cstdint>
#include <vector>

#include "tutti/input/dataset.hpp"

namespace tutti {

class PackNormalisation {
  public:
    /// Of the options' numbers; both empty: the data set says nothing of it. UsageError where one is not
    /// finite, a deviation is not positive, or there are not as many of one as of the other.
    PackNormalisation(const std::vector<float>& mean, const std::vector<float>& std);

    /// Sets info.mean and info.std for info.sample_shape, whose channels are of `frames` images. UsageError
    /// unless there is one number for all channels, one for each of a frame, or one for each.
    void put_into(DatasetInfo& info, std::int64_t frames = 1) const;

  private:
    std::vector<float> mean_, std_;
};

}  // namespace tutti
