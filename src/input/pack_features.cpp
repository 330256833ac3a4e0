#include <filesystem>
#include <utility>

#include "dataset_writer.hpp"
#include "in_order.hpp"
#include "pack_normalisation.hpp"
#include "segment_list.hpp"
#include "tutti/input/pack.hpp"
#include "video_features.hpp"

namespace tutti {

DatasetInfo pack_features(const PackFeaturesOptions& options,
                          const std::function<void(const std::string&)>& skipped) {
    refuse_overwriting(options.output, options.labels);
    const PackNormalisation normalisation(options.mean, options.std);
    std::vector<VideoPart> parts =
        read_segment_list(options.labels, options.labelled ? Labels::required : Labels::optional);
    const PartReader reader(options);
    const std::vector<PartSource> sources = find_sources(std::move(parts), reader, options, skipped);
    const std::int64_t features = sources.front().extent.width();
    DatasetInfo info;
    info.dtype = DType::f32;
    info.sample_shape = {features};
    info.classes = 2;
    info.class_names = {"outside", "inside"};
    info.labelled = options.labelled;
    normalisation.put_into(info);
    for (const PartSource& source : sources) info.samples += source.seconds();
    const std::vector<PartPiece> pieces = pieces_of(sources, features);

    // Waits for what its threads still read: after the writer has removed what it began.
    InOrder<std::vector<float>> rows(pieces.size(), options.threads, [&](std::size_t i) {
        return reader.read(pieces[i].source->part, pieces[i].source->extent, pieces[i].first, pieces[i].last,
                           features);
    });
    DatasetWriter writer(options.output, info,
                         "features: " + std::filesystem::path(options.labels).filename().string());
    std::vector<std::int64_t> labels;
    for (const PartPiece& piece : pieces) {
        const std::vector<float> values = rows.next([&options] { end_if_stopped(options.output); });
        labels.clear();
        for (std::int64_t second = piece.first; options.labelled && second < piece.last; ++second)
            labels.push_back(is_chosen(piece.source->part, second) ? 1 : 0);
        for (std::int64_t second = piece.first; options.from && second < piece.last; ++second)
            options.from({piece.source->part.id, std::to_string(second)});
        writer.append(std::as_bytes(std::span(values)), labels);
    }
    writer.commit();
    return info;
}

}  // namespace tutti
