#include "image_packer.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "dataset_writer.hpp"
#include "image_file.hpp"
#include "in_order.hpp"
#include "pack_normalisation.hpp"
#include "pixel_targets.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

DatasetInfo info_of(const ImageSourceOptions& options) {
    DatasetInfo info;
    info.labelled = options.csv.empty() || (options.labelled && options.targets.empty());
    info.targets = static_cast<std::int64_t>(options.targets.size());
    info.target_names = options.targets;
    return info;
}

/// Samples on their way into the file.
class ImagePiece {
  public:
    ImagePiece(const ImageSourceOptions& options, const PixelTargets& pixel_targets)
        : fill_(options.fill_targets),
          placed_(options.placements.has_value()),
          pixel_targets_(pixel_targets) {}

    void add(const ListedSample& source, const ImageSample& sample, bool labelled) {
        pixels_.insert(pixels_.end(), sample.pixels.begin(), sample.pixels.end());
        if (labelled) labels_.push_back(source.label);
        const std::size_t before = targets_.size();
        targets_.insert(targets_.end(), source.targets.begin(), source.targets.end());
        const std::span<float> targets = std::span(targets_).subspan(before);
        pixel_targets_.move(targets, sample.placement);
        if (std::ranges::any_of(targets, [](float target) { return std::isinf(target); }))
            throw DataError(source.path + ": its place is no finite number in pixels of the sample",
                            "correct its row");
        if (pixel_targets_.has_place_outside(targets, sample.placement)) ++outside_;
        const auto is_absent = [](float target) { return std::isnan(target); };
        if (fill_ && std::ranges::any_of(targets, is_absent)) {
            std::ranges::replace_if(targets, is_absent, *fill_);
            ++filled_;
        }
        paths_.push_back(source.name());
        if (placed_) placements_.push_back(placement_in_picture(source.offset, sample.placement));
    }
    std::int64_t filled() const { return filled_; }
    std::int64_t outside() const { return outside_; }
    bool is_full() const { return static_cast<std::int64_t>(pixels_.size()) >= packed_piece_bytes; }
    void flush(DatasetWriter& writer) {
        writer.append(pixels_, labels_, targets_, paths_, placements_);
        pixels_.clear();
        labels_.clear();
        targets_.clear();
        paths_.clear();
        placements_.clear();
    }

  private:
    const std::optional<float> fill_;
    const bool placed_;
    const PixelTargets& pixel_targets_;
    std::int64_t filled_ = 0, outside_ = 0;
    std::vector<std::byte> pixels_;
    std::vector<std::int64_t> labels_;
    std::vector<float> targets_;
    std::vector<std::string> paths_;
    std::vector<SamplePlacement> placements_;
};

/// Of placements in pixels of samples, and targets in those of the images that these are made of.
void refuse_other_pixels(const ImageSourceOptions& options) {
    if (options.placements && options.height > 0 && !options.targets.empty() && options.target_pixels.empty())
        throw UsageError(
            "--placements says where pixels of samples lie, but with --size the places in "
            "--target stay in pixels of the images",
            "name the columns with them, too: --target-pixels X,Y");
}

/// Of the folder or the list; the output is none of their files.
std::vector<ListedSample> list_samples(const ImageSourceOptions& options, const ImageSampleKind& kind,
                                       DatasetInfo& info, RowCounts* rows) {
    RowCounts counts;
    std::vector<ListedSample> sources;
    if (options.csv.empty()) {
        sources = kind.list_folder(info);
    } else {
        refuse_overwriting(options.output, options.csv);
        sources = read_sample_list(options, info, counts);
    }
    if (options.placements && options.placements->from == PlacementSource::From::name)
        for (ListedSample& source : sources) source.offset = offset_in_name(source.path);
    if (rows != nullptr) *rows = counts;
    for (const ListedSample& source : sources) {
        end_if_stopped(options.output);
        refuse_overwriting(options.output, source.path);
    }
    return sources;
}

/// What was listed, as it is read. The first that can be read gives the data set its shape.
class ReadableSamples {
  public:
    ReadableSamples(const ImageSourceOptions& options, const ImageSampleKind& kind,
                    const PackNormalisation& normalisation, std::vector<ListedSample> sources)
        : options_(options),
          kind_(kind),
          normalisation_(normalisation),
          sources_(std::move(sources)),
          reader_({options.height, options.width, options.channels, options.fit}, options.output) {}

    const std::vector<ListedSample>& sources() const { return sources_; }

    /// Only what can be read stays; `skipped` is told why of the others.
    void leave_out_unreadable(DatasetInfo& info, const std::function<void(const std::string&)>& skipped) {
        std::vector<ListedSample> left;
        for (const std::size_t i : readable_samples(
                 sources_.size(), options_.threads, reader_, options_.output,
                 [&](std::size_t index) { read_for_shape(index, info); }, skipped))
            left.push_back(std::move(sources_[i]));
        sources_ = std::move(left);
    }
    /// Of several threads, which may each have one first where a clip's later frame cannot be read.
    void read_for_shape(std::size_t i, DatasetInfo& info) {
        read(i);
        const std::lock_guard lock(shaping_);
        if (info.sample_shape.rank() > 0) return;
        const Shape image = reader_.shape();
        info.sample_shape = {image[0], image[1], kind_.frames * image[2]};
        if (kind_.frames > 1) info.frames = kind_.frames;
        normalisation_.put_into(info, kind_.frames);
    }
    /// Any thread, once the shape is there: from then on the reader is not changed any more.
    ImageSample read(std::size_t i) { return kind_.read(reader_, sources_[i]); }

  private:
    const ImageSourceOptions& options_;
    const ImageSampleKind& kind_;
    const PackNormalisation& normalisation_;
    std::vector<ListedSample> sources_;
    ImageSampleReader reader_;
    std::mutex shaping_;
};

void tell_source(const PackedFrom& told, const ListedSample& source) {
    if (!told) return;
    std::vector<std::string> where{source.name()};
    if (source.frames)
        where.insert(where.end(),
                     {std::to_string(source.frames->first), std::to_string(source.frames->last)});
    told(where);
}

/// In the order of the list, read on several threads.
void write_samples(const ImageSourceOptions& options, ReadableSamples& readable, const DatasetInfo& info,
                   const std::string& source_note, ImagePiece& piece) {
    const std::vector<ListedSample>& sources = readable.sources();
    // Waits for what its threads still read, which may be long: after the writer has removed what it began.
    InOrder<ImageSample> samples(sources.size(), options.threads,
                                 [&readable](std::size_t i) { return readable.read(i); });
    DatasetWriter writer(options.output, info, source_note, Paths::stored,
                         options.placements ? Placements::stored : Placements::none);
    for (const ListedSample& source : sources) {
        piece.add(source, samples.next([&options] { end_if_stopped(options.output); }), info.labelled);
        tell_source(options.from, source);
        if (piece.is_full()) piece.flush(writer);
    }
    piece.flush(writer);
    writer.commit();
}

}  // namespace

DatasetInfo pack_image_samples(const ImageSourceOptions& options, const ImageSampleKind& kind,
                               const std::function<void(const std::string&)>& skipped, RowCounts* rows) {
    if (const std::string reason = no_image_files(); !reason.empty())
        throw UsageError("trainer pack " + kind.thing + "s: image files cannot be read", reason);
    refuse_other_pixels(options);
    const PackNormalisation normalisation(options.mean, options.std);
    const PixelTargets pixel_targets(options.targets, options.target_pixels);
    DatasetInfo info = info_of(options);
    ReadableSamples samples(options, kind, normalisation, list_samples(options, kind, info, rows));
    if (skipped) samples.leave_out_unreadable(info, skipped);
    const std::string& listed = options.csv.empty() ? options.folder : options.csv;
    if (samples.sources().empty())
        throw DataError(listed + ": no " + kind.thing + " could be read", "check the files");
    samples.read_for_shape(0, info);
    info.samples = static_cast<std::int64_t>(samples.sources().size());

    const std::filesystem::path name = std::filesystem::path(listed).lexically_normal().filename();
    ImagePiece piece(options, pixel_targets);
    write_samples(options, samples, info, kind.thing + "s: " + name.string(), piece);
    if (rows != nullptr) {
        rows->filled = piece.filled();
        rows->outside = piece.outside();
    }
    return info;
}

}  // namespace tutti
