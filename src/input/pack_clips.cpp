#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>

#include "dataset_writer.hpp"
#include "image_file.hpp"
#include "image_packer.hpp"
#include "image_samples.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

std::vector<ListedSample> clips_of_classes(const PackClipsOptions& options, DatasetInfo& info) {
    info.class_names =
        folders_in(options.folder, "put the clips of each class into a folder of its name, a folder each");
    std::vector<ListedSample> clips;
    for (std::size_t label = 0; label < info.class_names.size(); ++label) {
        end_if_stopped(options.output);
        const fs::path folder = fs::path(options.folder) / info.class_names[label];
        for (const std::string& name :
             folders_in(folder.string(),
                        "put the frames of each clip into a folder in it, or remove it if it is no class"))
            clips.push_back({(folder / name).string(), static_cast<std::int64_t>(label), {}});
    }
    info.classes = static_cast<std::int64_t>(info.class_names.size());
    return clips;
}

/// The number that the name of a frame ends in, before its ending: 5 of img_00005.png.
std::optional<std::int64_t> number_of(const std::string& path) {
    const std::string name = fs::path(path).stem().string();
    const std::size_t before = name.find_last_not_of("0123456789");
    const char* const digits = name.data() + (before == std::string::npos ? 0 : before + 1);
    std::int64_t number = 0;
    const auto [rest, status] = std::from_chars(digits, name.data() + name.size(), number);
    if (status != std::errc()) return {};
    return number;
}

/// The first images in a clip's folder, at most so many: by name or, of those in its range, by number.
std::vector<std::string> frames_in(const ListedSample& source, std::int64_t most) {
    const std::string& folder = source.path;
    std::vector<std::string> paths;
    std::error_code error, ignored;
    for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with('.') && has_image_name(name) && !entry->is_directory(ignored))
            paths.push_back(entry->path().string());
    }
    if (error)
        throw DataError(folder + ": the frames cannot be listed: " + error.message(),
                        "check the path, or leave such clips out with --skip-errors");
    if (paths.empty())
        throw DataError(folder + ": there is no image in it",
                        "names must end in .png, .jpg or .jpeg; leave such clips out with --skip-errors");
    std::ranges::sort(paths);
    if (source.frames) {
        std::erase_if(paths, [&](const std::string& path) {
            const std::optional<std::int64_t> number = number_of(path);
            return !number || *number < source.frames->first || *number > source.frames->last;
        });
        std::ranges::stable_sort(paths, {}, number_of);  // img_10.png behind img_9.png
    }
    if (paths.empty())
        throw DataError(fmt::format("{}: there is no image whose name ends in a number from {} to {}", folder,
                                    source.frames->first, source.frames->last),
                        "correct the row, or leave such clips out with --skip-errors");
    if (static_cast<std::int64_t>(paths.size()) > most) paths.resize(static_cast<std::size_t>(most));
    return paths;
}

/// Pixel by pixel the channels of all frames, the first frame's first.
ImageSample read_clip(ImageSampleReader& reader, const PackClipsOptions& options,
                      const ListedSample& source) {
    const std::vector<std::string> paths = frames_in(source, options.frames);
    ImageSample clip;
    std::int64_t pixels = 0, channels = 0;
    const auto put = [&](const std::byte* from, std::int64_t stride, std::int64_t frame) {
        std::byte* to = clip.pixels.data() + frame * channels;
        for (std::int64_t i = 0; i < pixels; ++i, from += stride, to += options.frames * channels)
            std::copy_n(from, channels, to);
    };
    std::int64_t frame = 0;
    for (const std::string& path : paths) {
        refuse_overwriting(options.output, path);
        const auto [image, placement] = reader.read(path);
        if (frame == 0) clip.placement = placement;
        const bool has_places = !options.target_pixels.empty() || options.placements;
        if (has_places && placement != clip.placement)
            throw DataError(path +
                                " has another size than the frames of its clip before it, so that a place "
                                "in them is not one place in the sample",
                            std::string("make all of one size, leave such clips out with --skip-errors, or "
                                        "leave out ") +
                                (options.placements ? "--placements" : "--target-pixels"));
        pixels = image.height * image.width;
        channels = image.channels;
        clip.pixels.resize(static_cast<std::size_t>(pixels * channels * options.frames));
        put(image.pixels.data(), channels, frame++);
    }
    // A short clip stands still at its end.
    const std::byte* const last = clip.pixels.data() + (frame - 1) * channels;
    for (; frame < options.frames; ++frame) put(last, options.frames * channels, frame);
    return clip;
}

}  // namespace

DatasetInfo pack_clips(const PackClipsOptions& options,
                       const std::function<void(const std::string&)>& skipped, RowCounts* rows) {
    const auto list_folder = [&options](DatasetInfo& info) { return clips_of_classes(options, info); };
    const auto read = [&options](ImageSampleReader& reader, const ListedSample& source) {
        return read_clip(reader, options, source);
    };
    return pack_image_samples(options, {"clip", options.frames, list_folder, read}, skipped, rows);
}

}  // namespace tutti
