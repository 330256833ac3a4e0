#pragma once
// What packers of images and of clips have in common.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "image_placement.hpp"
#include "image_samples.hpp"
#include "sample_list.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {

struct ImageSample {
    std::vector<std::byte> pixels;
    Placement placement;  ///< of the file's image in it
};

/// What each has of its own.
struct ImageSampleKind {
    std::string thing;        ///< "image", "clip"
    std::int64_t frames = 1;  ///< that stand one behind the other at each pixel
    /// Of ImageSourceOptions::folder; puts the classes into info.
    std::function<std::vector<ListedSample>(DatasetInfo& info)> list_folder;
    /// May be called by several threads, as ImageSampleReader says.
    std::function<ImageSample(ImageSampleReader& reader, const ListedSample& source)> read;
};

/// Packs what the folder or the table lists. Throws what pack_images() does.
DatasetInfo pack_image_samples(const ImageSourceOptions& options, const ImageSampleKind& kind,
                               const std::function<void(const std::string&)>& skipped, RowCounts* rows);

}  // namespace tutti
