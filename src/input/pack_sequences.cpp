#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "dataset_writer.hpp"
#include "in_order.hpp"
#include "pack_normalisation.hpp"
#include "segment_list.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"
#include "tutti/input/pack.hpp"
#include "video_features.hpp"

namespace tutti {
namespace {

void require_length(const PartSource& source, std::int64_t length) {
    if (length == 0 || source.seconds() <= length) return;
    throw DataError(fmt::format("{}: it has {}, more than the {} of --length", source.part.place,
                                counted(source.seconds(), "second"), length),
                    fmt::format("give --length {}, make several entries of it, or leave such entries out "
                                "with --skip-errors",
                                source.seconds()));
}

/// How often each video is in the list.
std::map<std::string, int> count_ids(const std::vector<VideoPart>& parts) {
    std::map<std::string, int> counts;
    for (const VideoPart& part : parts) ++counts[part.id];
    return counts;
}

std::string path_of(const VideoPart& part, const std::map<std::string, int>& counts) {
    return counts.at(part.id) > 1 ? fmt::format("{} {}-{}", part.id, part.first, part.last) : part.id;
}

DatasetInfo describe(const std::vector<PartSource>& sources, const PackSequencesOptions& options,
                     const PackNormalisation& normalisation) {
    std::int64_t length = options.length;
    for (const PartSource& source : sources) length = std::max(length, source.seconds());
    const std::int64_t features = sources.front().extent.width();
    DatasetInfo info;
    info.samples = std::ssize(sources);
    info.dtype = DType::f32;
    info.sample_shape = {length, features};
    normalisation.put_into(info);
    info.sample_shape = {length, features + 1};
    if (!info.mean.empty()) {
        info.mean.push_back(0);
        info.std.push_back(1);
    }
    info.labelled = false;
    if (options.labelled) {
        info.targets = 2 * length;
        info.target_kind = target_kinds::segments;
    }
    return info;
}

}  // namespace

DatasetInfo pack_sequences(const PackSequencesOptions& options,
                           const std::function<void(const std::string&)>& skipped, SequenceCounts* counts) {
    refuse_overwriting(options.output, options.labels);
    const PackNormalisation normalisation(options.mean, options.std);
    std::vector<VideoPart> parts =
        read_segment_list(options.labels, options.labelled ? Labels::required : Labels::optional);
    const std::map<std::string, int> ids = count_ids(parts);
    const PartReader reader(options);
    const std::vector<PartSource> sources =
        find_sources(std::move(parts), reader, options, skipped,
                     [&options](const PartSource& source) { require_length(source, options.length); });
    const DatasetInfo info = describe(sources, options, normalisation);
    const std::int64_t length = info.sample_shape[0], row = info.sample_shape[1];
    const std::vector<PartPiece> pieces = pieces_of(sources, row);

    // Waits for what its threads still read: after the writer has removed what it began.
    InOrder<std::vector<float>> steps(pieces.size(), options.threads, [&](std::size_t i) {
        return reader.read(pieces[i].source->part, pieces[i].source->extent, pieces[i].first, pieces[i].last,
                           row);
    });
    DatasetWriter writer(options.output, info,
                         "sequences: " + std::filesystem::path(options.labels).filename().string(),
                         Paths::stored);
    SequenceCounts sums;
    for (const PartPiece& piece : pieces) {
        const std::vector<float> values = steps.next([&options] { end_if_stopped(options.output); });
        writer.append_steps(std::as_bytes(std::span(values)));
        const PartSource& source = *piece.source;
        if (piece.last < source.extent.last) continue;
        SegmentTargets targets;
        if (options.labelled) targets = segment_targets(source.part, source.extent.last, length);
        const std::string path = path_of(source.part, ids);
        writer.end_sequence(targets.offsets, {&path, 1});
        if (options.from) options.from({source.part.id, std::to_string(source.part.first)});
        sums.seconds += source.seconds();
        sums.padding += length - source.seconds();
        sums.missed += targets.missed;
    }
    writer.commit();
    if (counts != nullptr) *counts = sums;
    return info;
}

}  // namespace tutti
