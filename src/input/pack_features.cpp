#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <utility>

#include "dataset_writer.hpp"
#include "in_order.hpp"
#include "npy_file.hpp"
#include "pack_normalisation.hpp"
#include "segment_list.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr const char* remedy = "extract the features again, or leave such entries out with --skip-errors";

/// By so many seconds the files of a video may be shorter than its part in the list: what extracts features
/// rounds the length of a video each in its way.
constexpr std::int64_t missing_seconds = 1;

std::string file_of(const std::string& folder, const VideoPart& part) {
    return (fs::path(folder) / (part.id + ".npy")).string();
}

/// What the files of a part have.
struct Extent {
    std::vector<std::int64_t> columns;  // of each folder
    std::int64_t last = 0;              // the part's, or less where files end before it
};

/// Reads the files of parts, one of each folder. Several threads may.
class PartReader {
  public:
    explicit PartReader(const PackFeaturesOptions& options) : options_(options) {}

    /// Looks at the files without their values.
    Extent extent(const VideoPart& part) const {
        end_if_stopped(options_.output);
        Extent extent{.columns = {}, .last = part.last};
        for (const std::string& folder : options_.folders) {
            const NpyFile file(file_of(folder, part));
            if (file.rows() < std::max(part.last - missing_seconds, part.first + 1))
                throw DataError(fmt::format("{}: there are {} seconds in it, but {} wants {} to {}",
                                            file.path(), file.rows(), part.place, part.first, part.last),
                                remedy);
            extent.last = std::min(extent.last, file.rows());
            extent.columns.push_back(file.columns());
        }
        return extent;
    }

    /// Seconds first … last − 1: the rows of all folders, side by side.
    std::vector<float> read(const VideoPart& part, const Extent& extent, std::int64_t first,
                            std::int64_t last) const {
        end_if_stopped(options_.output);
        std::int64_t width = 0, column = 0;
        for (const std::int64_t columns : extent.columns) width += columns;
        std::vector<float> rows(static_cast<std::size_t>((last - first) * width));
        for (std::size_t i = 0; i < options_.folders.size(); ++i) {
            const NpyFile file(file_of(options_.folders[i], part));
            if (file.columns() != extent.columns[i] || file.rows() < last)
                throw DataError(file.path() + ": it was changed while it was packed", "pack it again");
            file.read(first, last - first, rows.data() + column, width);
            require_finite(file, rows.data() + column, width, first, last);
            column += file.columns();
        }
        return rows;
    }

  private:
    static void require_finite(const NpyFile& file, const float* rows, std::int64_t stride,
                               std::int64_t first, std::int64_t last) {
        for (std::int64_t second = first; second < last; ++second, rows += stride) {
            const float* const end = rows + file.columns();
            const float* const bad = std::find_if_not(rows, end, [](float v) { return std::isfinite(v); });
            if (bad != end)
                throw DataError(fmt::format("{}: row {}, column {} is {}, not a finite number of 32 bits",
                                            file.path(), second, bad - rows, *bad),
                                remedy);
        }
    }

    const PackFeaturesOptions& options_;
};

struct PartSource {
    VideoPart part;
    Extent extent;
};

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

/// The parts that can be packed. Where others are left out, all values are looked at.
std::vector<PartSource> find_sources(std::vector<VideoPart> parts, const PartReader& reader,
                                     const PackFeaturesOptions& options,
                                     const std::function<void(const std::string&)>& skipped,
                                     std::int64_t seconds_at_once) {
    std::vector<PartSource> sources;
    const auto look = [&](std::size_t i) {
        Extent extent = reader.extent(parts[i]);
        for (std::int64_t at = parts[i].first; skipped && at < extent.last; at += seconds_at_once)
            reader.read(parts[i], extent, at, std::min(extent.last, at + seconds_at_once));
        return extent;
    };
    InOrder<Extent> extents(parts.size(), options.threads, look);
    for (const VideoPart& part : parts) {
        try {
            require_share(part);
            PartSource source{part, extents.next([&options] { end_if_stopped(options.output); })};
            if (!sources.empty()) require_same_columns(sources.front(), source, options);
            sources.push_back(std::move(source));
        } catch (const DataError& error) {
            if (!skipped) throw;
            skipped(error.what());
        }
    }
    if (sources.empty()) throw DataError(options.labels + ": no entry could be read", "check the files");
    return sources;
}

/// A piece of a part, which one thread reads.
struct Piece {
    const PartSource* source;
    std::int64_t first, last;
};

}  // namespace

DatasetInfo pack_features(const PackFeaturesOptions& options,
                          const std::function<void(const std::string&)>& skipped) {
    refuse_overwriting(options.output, options.labels);
    const PackNormalisation normalisation(options.mean, options.std);
    std::vector<VideoPart> parts = read_segment_list(options.labels);
    for (const VideoPart& part : parts)
        for (const std::string& folder : options.folders)
            refuse_overwriting(options.output, file_of(folder, part));

    const PartReader reader(options);
    constexpr std::int64_t seconds_to_look_at = 256;
    const std::vector<PartSource> sources =
        find_sources(std::move(parts), reader, options, skipped, seconds_to_look_at);
    std::int64_t features = 0;
    for (const std::int64_t columns : sources.front().extent.columns) features += columns;
    const std::int64_t seconds_at_once =
        std::max<std::int64_t>(1, packed_piece_bytes / (features * std::int64_t{sizeof(float)}));
    DatasetInfo info;
    info.dtype = DType::f32;
    info.sample_shape = {features};
    info.classes = 2;
    info.class_names = {"outside", "inside"};
    normalisation.put_into(info);
    std::vector<Piece> pieces;
    for (const PartSource& source : sources) {
        info.samples += source.extent.last - source.part.first;
        for (std::int64_t at = source.part.first; at < source.extent.last; at += seconds_at_once)
            pieces.push_back({&source, at, std::min(source.extent.last, at + seconds_at_once)});
    }

    // Waits for what its threads still read: after the writer has removed what it began.
    InOrder<std::vector<float>> rows(pieces.size(), options.threads, [&](std::size_t i) {
        return reader.read(pieces[i].source->part, pieces[i].source->extent, pieces[i].first, pieces[i].last);
    });
    DatasetWriter writer(options.output, info, "features: " + fs::path(options.labels).filename().string());
    std::vector<std::int64_t> labels;
    for (const Piece& piece : pieces) {
        const std::vector<float> values = rows.next([&options] { end_if_stopped(options.output); });
        labels.clear();
        for (std::int64_t second = piece.first; second < piece.last; ++second)
            labels.push_back(is_chosen(piece.source->part, second) ? 1 : 0);
        for (std::int64_t second = piece.first; options.from && second < piece.last; ++second)
            options.from({piece.source->part.id, std::to_string(second)});
        writer.append(std::as_bytes(std::span(values)), labels);
    }
    writer.commit();
    return info;
}

}  // namespace tutti
