#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "csv_reader.hpp"
#include "dataset_writer.hpp"
#include "image_file.hpp"
#include "image_samples.hpp"
#include "in_order.hpp"
#include "pack_normalisation.hpp"
#include "row_choice.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

struct Clip {
    std::string folder;
    std::int64_t label = 0;
    std::vector<float> targets;
};

bool has_labels(const PackClipsOptions& options) {
    return options.csv.empty() || (options.labelled && options.targets.empty());
}

std::vector<Clip> clips_of_classes(const PackClipsOptions& options, DatasetInfo& info) {
    info.class_names =
        folders_in(options.folder, "put the clips of each class into a folder of its name, a folder each");
    std::vector<Clip> clips;
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

std::size_t find_column(const CsvReader& reader, const std::vector<std::string>& names, const char* name,
                        const char* remedy) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) reader.fail(std::string("there is no column ") + name, remedy);
    return static_cast<std::size_t>(found - names.begin());
}

std::int64_t label_in(const CsvReader& reader, const std::string& text) {
    // A column with blanks, as of clips without a label, is written with fractions by some programs: 1.0.
    double label = -1;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), label);
    if (status != std::errc() || rest != text.data() + text.size() || !(label >= 0 && label < most_classes) ||
        label != std::floor(label))
        reader.fail("the label is '" + text + "'",
                    fmt::format("number the classes from 0 on, at most {}", most_classes - 1));
    return static_cast<std::int64_t>(label);
}

std::vector<Clip> clips_of_table(const PackClipsOptions& options, DatasetInfo& info, LeftOutRows& left_out) {
    CsvReader reader(options.csv, ',');
    std::vector<std::string> names, fields;
    if (!reader.next(names))
        throw DataError(options.csv + ": the file is empty", "its first line must name the columns");
    const std::size_t path =
        find_column(reader, names, "path", "the first line names the columns: path,label");
    const std::size_t label =
        has_labels(options)
            ? find_column(reader, names, "label", "name it so, or pack without labels: --no-labels")
            : 0;
    RowChoice choice({options.csv, names, ','}, options.keep, options.targets);
    std::vector<Clip> clips;
    while (reader.next(fields)) {
        end_if_stopped(options.output);
        if (fields.size() != names.size())
            reader.fail(
                fmt::format("{} fields, but the first line names {} columns", fields.size(), names.size()),
                "correct the line; a field that holds a comma must be in \"quotes\"");
        if (!choice.take(reader, fields)) continue;
        clips.push_back({(fs::path(options.folder) / fields[path]).string(),
                         has_labels(options) ? label_in(reader, fields[label]) : 0, choice.targets()});
        info.classes = std::max(info.classes, clips.back().label + 1);
    }
    choice.require_some(options.csv, static_cast<std::int64_t>(clips.size()));
    left_out = choice.left_out();
    if (clips.empty()) throw DataError(options.csv + ": there are no rows", "give a list that has some");
    if (!has_labels(options)) info.classes = 0;
    if (options.class_names.empty()) return clips;
    if (static_cast<std::int64_t>(options.class_names.size()) < info.classes)
        throw UsageError(fmt::format("--class-names gives {} names, but the column label has {} classes",
                                     options.class_names.size(), info.classes),
                         "give one name per class, or none");
    info.class_names = options.class_names;
    info.classes = static_cast<std::int64_t>(info.class_names.size());
    return clips;
}

/// The first images in a clip's folder by name, at most so many.
std::vector<std::string> frames_in(const std::string& folder, std::int64_t most) {
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
    if (static_cast<std::int64_t>(paths.size()) > most) paths.resize(static_cast<std::size_t>(most));
    return paths;
}

/// Pixel by pixel the channels of all frames, the first frame's first.
std::vector<std::byte> read_clip(ImageSampleReader& reader, const PackClipsOptions& options,
                                 const std::string& folder) {
    const std::vector<std::string> paths = frames_in(folder, options.frames);
    std::vector<std::byte> clip;
    std::int64_t pixels = 0, channels = 0;
    const auto put = [&](const std::byte* from, std::int64_t stride, std::int64_t frame) {
        std::byte* to = clip.data() + frame * channels;
        for (std::int64_t i = 0; i < pixels; ++i, from += stride, to += options.frames * channels)
            std::copy_n(from, channels, to);
    };
    std::int64_t frame = 0;
    for (const std::string& path : paths) {
        refuse_overwriting(options.output, path);
        const Image image = reader.read(path);
        pixels = image.height * image.width;
        channels = image.channels;
        clip.resize(static_cast<std::size_t>(pixels * channels * options.frames));
        put(image.pixels.data(), channels, frame++);
    }
    // A short clip stands still at its end.
    const std::byte* const last = clip.data() + (frame - 1) * channels;
    for (; frame < options.frames; ++frame) put(last, options.frames * channels, frame);
    return clip;
}

}  // namespace

DatasetInfo pack_clips(const PackClipsOptions& options,
                       const std::function<void(const std::string&)>& skipped, LeftOutRows* left_out) {
    if (const std::string reason = no_image_files(); !reason.empty())
        throw UsageError("trainer pack clips: image files cannot be read", reason);
    const PackNormalisation normalisation(options.mean, options.std);
    DatasetInfo info;
    info.labelled = has_labels(options);
    info.targets = static_cast<std::int64_t>(options.targets.size());
    info.target_names = options.targets;
    if (!options.csv.empty()) refuse_overwriting(options.output, options.csv);
    LeftOutRows rows;
    std::vector<Clip> clips =
        options.csv.empty() ? clips_of_classes(options, info) : clips_of_table(options, info, rows);
    if (left_out != nullptr) *left_out = rows;

    ImageSampleReader reader({options.height, options.width, options.channels}, options.output);
    // Of the first that can be read, before all others are.
    const auto take_shape = [&] {
        if (info.sample_shape.rank() > 0) return;
        const Shape frame = reader.shape();
        info.sample_shape = {frame[0], frame[1], options.frames * frame[2]};
        normalisation.put_into(info, options.frames);
    };
    if (skipped) {
        std::vector<Clip> left;
        for (const std::size_t i : readable_samples(
                 clips.size(), options.threads, reader, options.output,
                 [&](std::size_t index) {
                     read_clip(reader, options, clips[index].folder);
                     take_shape();
                 },
                 skipped))
            left.push_back(std::move(clips[i]));
        clips = std::move(left);
    }
    const std::string& source = options.csv.empty() ? options.folder : options.csv;
    if (clips.empty()) throw DataError(source + ": no clip could be read", "check the files");
    // The shape; from here on the reader is not changed any more.
    reader.read(frames_in(clips.front().folder, 1).front());
    take_shape();
    info.samples = static_cast<std::int64_t>(clips.size());

    // Waits for what its threads still read, which may be long: after the writer has removed what it began.
    InOrder<std::vector<std::byte>> samples(clips.size(), options.threads, [&](std::size_t i) {
        return read_clip(reader, options, clips[i].folder);
    });
    DatasetWriter writer(options.output, info,
                         "clips: " + fs::path(source).lexically_normal().filename().string(), Paths::stored);
    for (const Clip& clip : clips) {
        const std::vector<std::byte> sample = samples.next([&options] { end_if_stopped(options.output); });
        writer.append(sample, info.labelled ? std::vector{clip.label} : std::vector<std::int64_t>{},
                      clip.targets, {&clip.folder, 1});
        if (options.from) options.from({clip.folder});
    }
    writer.commit();
    return info;
}

}  // namespace tutti
