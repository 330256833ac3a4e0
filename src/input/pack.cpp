#include "tutti/input/pack.hpp"
#include "tutti/base/units.hpp"

#include <algorithm>
#include <filesystem>

#include "csv_fields.hpp"
#include "dataset_writer.hpp"
#include "idx.hpp"
#include "pack_normalisation.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

std::vector<std::int64_t> read_idx_labels(const PackIdxOptions& options) {
    IdxReader reader(options.labels, IdxReader::Kind::labels);
    std::vector<std::int64_t> labels;
    std::vector<std::byte> piece;
    // In pieces, so that a damaged header does not ask for memory that the file cannot fill.
    for (std::int64_t left = reader.dims()[0]; left > 0; left -= static_cast<std::int64_t>(piece.size())) {
        end_if_stopped(options.output);
        piece.resize(static_cast<std::size_t>(std::min(left, packed_piece_bytes)));
        reader.read(piece);
        for (const std::byte label : piece) labels.push_back(static_cast<std::int64_t>(label));
    }
    reader.require_end();
    return labels;
}

void name_classes(DatasetInfo& info, const PackIdxOptions& options, std::span<const std::int64_t> labels) {
    const auto largest = std::max_element(labels.begin(), labels.end());
    info.class_names = trimmed_class_names(options.class_names);
    info.classes = static_cast<std::int64_t>(info.class_names.size());
    if (info.classes == 0) {
        info.classes = *largest + 1;
        for (std::int64_t i = 0; i < info.classes; ++i) info.class_names.push_back(std::to_string(i));
    }
    const auto outside = std::find_if(labels.begin(), labels.end(),
                                      [&info](std::int64_t label) { return label >= info.classes; });
    if (outside != labels.end())
        throw DataError(options.labels + ": sample " + std::to_string(outside - labels.begin()) +
                            " has label " + std::to_string(*outside) + ", but " +
                            std::to_string(info.classes) + " class names are given",
                        "give " + std::to_string(*largest + 1) + " names, or none");
}

std::string source_of(const PackIdxOptions& options) {
    const auto file_name = [](const std::string& path) {
        return std::filesystem::path(path).filename().string();
    };
    return "IDX: " + file_name(options.images) + ", " + file_name(options.labels);
}

}  // namespace

DatasetInfo pack_idx(const PackIdxOptions& options) {
    refuse_overwriting(options.output, options.images);
    refuse_overwriting(options.output, options.labels);
    const PackNormalisation normalisation(options.mean, options.std);
    const std::vector<std::int64_t> labels = read_idx_labels(options);
    IdxReader images(options.images, IdxReader::Kind::images);
    DatasetInfo info;
    info.samples = images.dims()[0];
    info.sample_shape = {images.dims()[1], images.dims()[2], 1};
    normalisation.put_into(info);
    if (info.samples != static_cast<std::int64_t>(labels.size()))
        throw DataError(options.images + " has " + counted(info.samples, "image") + ", but " +
                            options.labels + " has " + counted(labels.size(), "label"),
                        "give two files of the same set");
    name_classes(info, options, labels);

    DatasetWriter writer(options.output, info, source_of(options));
    const std::int64_t rows = std::max<std::int64_t>(1, packed_piece_bytes / info.sample_bytes());
    std::vector<std::byte> piece;
    for (std::int64_t done = 0; done < info.samples; done += rows) {
        const std::int64_t count = std::min(rows, info.samples - done);
        piece.resize(static_cast<std::size_t>(count * info.sample_bytes()));
        images.read(piece);
        writer.append(piece, std::span(labels).subspan(static_cast<std::size_t>(done),
                                                       static_cast<std::size_t>(count)));
    }
    images.require_end();
    writer.commit();
    return info;
}

}  // namespace tutti
