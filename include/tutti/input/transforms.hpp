#pragma once
// Augmentation: a data set whose images are flipped, cropped and erased as they are read.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tutti/base/config.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// training: read_at() draws, anew at every position of every epoch; evaluation: the same for every pass.
enum class TransformUse { training, evaluation };

/// Whether it may turn images around. Pure.
constexpr bool is_flip(const TransformSpec& spec) {
    return spec.kind == TransformSpec::Kind::horizontal_flip ||
           spec.kind == TransformSpec::Kind::vertical_flip;
}

/// Which two targets of a sample are a place in its image, in pixels to the right and down, 0 at the centre
/// of the first one.
struct PlaceTargets {
    std::int64_t x = 0, y = 0;
};

/// Names alone may have made two targets a place. Throws DataError, which names the sample, where one lies
/// outside of its image: in another unit, or in a larger picture.
void check_places(const Dataset& data, const PlaceTargets& place);

/// `data` with its images transformed in the order of `transforms`; info() has the shape after the last one.
/// Without transforms `data` itself. Images are [height, width, channels] and not yet normalised; what a crop
/// adds around them is 0.
///
/// Names and meaning are torchvision's; multi_scale_crop is VideoMAE's. It and random_resized_crop are
/// brought to their size by a bilinear resize. Random numbers have addresses (tutti/base/random.hpp): place
/// augmentation, (seed, epoch, position), and the transform's number in the list, so a batch depends neither
/// on ranks nor on workers nor on where a run was interrupted. read(), and every read for evaluation, takes
/// the centre for a random crop (the largest square there for a multi-scale one, a part of it for a resized
/// one) and leaves flips and erasing out.
///
/// A thread that reads keeps memory for its largest batch as it is stored, where there is a crop
/// (Dataset::reading_bytes).
/// Throws UsageError: samples that are no images, a crop that is larger than the image with its padding; both
/// name the data set and its shape; a crop of data with targets, which may be places in the image, and for
/// training a flip of such data, unless `place` says which targets are one: a flip moves it with its pixel
/// (targets_at()).
std::unique_ptr<Dataset> transform_images(std::unique_ptr<Dataset> data,
                                          std::span<const TransformSpec> transforms, std::int64_t seed,
                                          TransformUse use, const std::optional<PlaceTargets>& place = {});

}  // namespace tutti
