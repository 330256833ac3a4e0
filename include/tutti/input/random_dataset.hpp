#pragma once
// Samples that mean nothing, for measurements without a file.

#include "tutti/input/dataset.hpp"

namespace tutti {

/// `samples` of this shape, u8, in memory: the same for the same seed. The bytes repeat after 16 MiB of
/// samples; the labels do not. Throws UsageError: a dimension, samples or classes below 1.
std::unique_ptr<Dataset> make_random_dataset(const Shape& sample_shape, std::int64_t samples,
                                             std::int64_t classes, std::int64_t seed);

}  // namespace tutti
