#pragma once
// The images or clips that a table lists.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "picture_offset.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {

/// Frames of a clip by the number that their names end in, the first and the last, which both belong to it.
struct FrameRange {
    std::int64_t first = 0, last = 0;
};

/// A file or folder to pack.
struct ListedSample {
    std::string path;
    std::int64_t label = 0;
    std::vector<float> targets{};  ///< as the table has them; NaN: to be filled
    PictureOffset offset{};        ///< in the picture, where that is stored
    std::optional<FrameRange> frames{};
    std::string listed{};  ///< the path as the list has it; empty: there is none

    const std::string& name() const { return listed.empty() ? path : listed; }
};

/// The rows of options.csv that are packed, in order; classes and their names go into `info`. Throws what
/// ImageSourceOptions says of tables.
std::vector<ListedSample> read_sample_list(const ImageSourceOptions& options, DatasetInfo& info,
                                           RowCounts& rows);

}  // namespace tutti
