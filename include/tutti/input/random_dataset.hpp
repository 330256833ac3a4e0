#pragma once
// Samples that mean nothing, for measurements without a file.

#include "tutti/input/dataset.hpp"

namespace tutti {

/// `samples` of this shape, u8, in memory: the same for the same seed. The bytes repeat after 16 MiB of
/// samples; the labels do not. With `targets` the samples have so many standard normal numbers (Philox, as
/// all randomness here) in place of labels, which do not repeat either and are held for all samples, and
/// `classes` is left alone; two targets of images are a place in each, x and y in pixels. Throws UsageError:
/// a dimension, samples or classes below 1; targets below 0 or, for all samples, more than 4 GiB.
std::unique_ptr<Dataset> make_random_dataset(const Shape& sample_shape, std::int64_t samples,
                                             std::int64_t classes, std::int64_t seed,
                                             std::int64_t targets = 0);

/// The same of f32 sequences [T, F] of standard normal features, whose steps all exist, with targets of the
/// kind target_kinds::segments: each sample has one segment, of a quarter of its steps (at least one), at a
/// place of its own. Throws UsageError: a shape that is none of sequences, no samples, targets of more than
/// 4 GiB.
std::unique_ptr<Dataset> make_random_sequences(const Shape& sample_shape, std::int64_t samples,
                                               std::int64_t seed);

}  // namespace tutti
