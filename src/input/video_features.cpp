#include "video_features.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "dataset_writer.hpp"
#include "in_order.hpp"
#include "npy_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

constexpr const char* remedy = "extract the features again, or leave such entries out with --skip-errors";

/// By so many seconds the files of a video may be shorter than its part in the list: what extracts features
/// rounds the length of a video each in its way.
constexpr std::int64_t missing_seconds = 1;

std::string file_of(const std::string& folder, const VideoPart& part) {
    return (std::filesystem::path(folder) / (part.id + ".npy")).string();
}

void require_finite(const NpyFile& file, const float* rows, std::int64_t stride, std::int64_t first,
                    std::int64_t last) {
    for (std::int64_t second = first; second < last; ++second, rows += stride) {
        const float* const end = rows + file.columns();
        const float* const bad = std::find_if_not(rows, end, [](float v) { return std::isfinite(v); });
        if (bad != end)
            throw DataError(fmt::format("{}: row {}, column {} is {}, not a finite number of 32 bits",
                                        file.path(), second, bad - rows, *bad),
                            remedy);
    }
}

void require_same_columns(const PartSource& first, const PartSource& other,
                          const PackFeaturesOptions& options) {
    for (std::size_t i = 0; i < options.folders.size(); ++i)
        if (first.extent.columns[i] != other.extent.columns[i])
            throw DataError(fmt::format("{} has {} columns, but {} has {}",
                                        file_of(options.folders[i], other.part), other.extent.columns[i],
                                        file_of(options.folders[i], first.part), first.extent.columns[i]),
                            remedy);
}

/// Segments that all lie outside are those of another count of seconds, such as segmentsOffset: every second
/// would be labelled as not chosen.
void require_share(const VideoPart& part) {
    for (std::int64_t second = part.first; second < part.last; ++second)
        if (is_chosen(part, second)) return;
    if (!part.segments.empty())
        throw DataError(fmt::format("{}: none of its segments has a share in timeRange [{}, {}]", part.place,
                                    part.first, part.last),
                        "give both in seconds of the video, or leave the segments out");
}

}  // namespace

std::int64_t Extent::width() const {
    return std::accumulate(columns.begin(), columns.end(), std::int64_t{0});
}

Extent PartReader::extent(const VideoPart& part) const {
    end_if_stopped(options_.output);
    Extent extent{.columns = {}, .last = part.last};
    for (const std::string& folder : options_.folders) {
        const NpyFile file(file_of(folder, part));
        if (file.rows() < std::max(part.last - missing_seconds, part.first + 1))
            throw DataError(fmt::format("{}: it holds {}, but {} wants {} to {}", file.path(),
                                        counted(file.rows(), "second"), part.place, part.first, part.last),
                            remedy);
        extent.last = std::min(extent.last, file.rows());
        extent.columns.push_back(file.columns());
    }
    return extent;
}

std::vector<float> PartReader::read(const VideoPart& part, const Extent& extent, std::int64_t first,
                                    std::int64_t last, std::int64_t stride) const {
    end_if_stopped(options_.output);
    std::int64_t column = 0;
    std::vector<float> rows(static_cast<std::size_t>((last - first) * stride), 1.0F);
    for (std::size_t i = 0; i < options_.folders.size(); ++i) {
        const NpyFile file(file_of(options_.folders[i], part));
        if (file.columns() != extent.columns[i] || file.rows() < last)
            throw DataError(file.path() + ": it was changed while it was packed", "pack it again");
        file.read(first, last - first, rows.data() + column, stride);
        require_finite(file, rows.data() + column, stride, first, last);
        column += file.columns();
    }
    return rows;
}

std::vector<PartSource> find_sources(std::vector<VideoPart> parts, const PartReader& reader,
                                     const PackFeaturesOptions& options,
                                     const std::function<void(const std::string&)>& skipped,
                                     const std::function<void(const PartSource&)>& accepts) {
    constexpr std::int64_t seconds_to_look_at = 256;
    for (const VideoPart& part : parts)
        for (const std::string& folder : options.folders)
            refuse_overwriting(options.output, file_of(folder, part));
    std::vector<PartSource> sources;
    const auto look = [&](std::size_t i) {
        Extent extent = reader.extent(parts[i]);
        for (std::int64_t at = parts[i].first; skipped && at < extent.last; at += seconds_to_look_at)
            reader.read(parts[i], extent, at, std::min(extent.last, at + seconds_to_look_at), extent.width());
        return extent;
    };
    InOrder<Extent> extents(parts.size(), options.threads, look);
    for (const VideoPart& part : parts) {
        try {
            // First, as each part's is taken in its turn, whatever is wrong with the part.
            PartSource source{part, extents.next([&options] { end_if_stopped(options.output); })};
            require_share(part);
            if (!sources.empty()) require_same_columns(sources.front(), source, options);
            if (accepts) accepts(source);
            sources.push_back(std::move(source));
        } catch (const DataError& error) {
            if (!skipped) throw;
            skipped(error.what());
        }
    }
    if (sources.empty()) throw DataError(options.labels + ": no entry could be read", "check the files");
    return sources;
}

std::vector<PartPiece> pieces_of(const std::vector<PartSource>& sources, std::int64_t row) {
    const std::int64_t seconds_at_once =
        std::max<std::int64_t>(1, packed_piece_bytes / (row * std::int64_t{sizeof(float)}));
    std::vector<PartPiece> pieces;
    for (const PartSource& source : sources)
        for (std::int64_t at = source.part.first; at < source.extent.last; at += seconds_at_once)
            pieces.push_back({&source, at, std::min(source.extent.last, at + seconds_at_once)});
    return pieces;
}

}  // namespace tutti
