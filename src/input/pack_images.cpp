#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "dataset_writer.hpp"
#include "image_file.hpp"
#include "image_samples.hpp"
#include "in_order.hpp"
#include "pack_normalisation.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

struct Source {
    std::string path;
    std::int64_t label = 0;
};

/// Whether one of the folders above leads here, too: a link that goes round in a circle.
bool is_within_itself(const fs::path& folder, const fs::path& top) {
    std::error_code ignored;
    for (fs::path above = folder.parent_path(); above.native().size() >= top.native().size();
         above = above.parent_path()) {
        if (fs::equivalent(above, folder, ignored)) return true;
        if (above == top || above == above.parent_path()) break;
    }
    return false;
}

std::vector<std::string> images_below(const std::string& folder, const std::string& output) {
    std::vector<std::string> paths;
    std::error_code error, ignored;
    constexpr auto options = fs::directory_options::follow_directory_symlink;
    std::string at = folder;
    for (auto entry = fs::recursive_directory_iterator(folder, options, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        end_if_stopped(output);
        const std::string name = entry->path().filename().string();
        const bool folder_below = entry->is_directory(ignored);
        if (folder_below) at = entry->path().string();  // which the next step may fail to list
        if (name.starts_with('.') ||
            (folder_below && entry->is_symlink(ignored) && is_within_itself(entry->path(), folder))) {
            if (folder_below) entry.disable_recursion_pending();
        } else if (has_image_name(name) && !folder_below) {
            paths.push_back(entry->path().string());
        }
    }
    if (error) fail_listing(at, error.message());
    if (paths.empty())
        throw DataError(folder + ": there is no image in it",
                        "names must end in .png, .jpg or .jpeg; remove the folder if it is no class");
    std::ranges::sort(paths);
    return paths;
}

}  // namespace

bool has_image_name(const std::string& path) {
    std::string end = fs::path(path).extension().string();
    for (char& c : end)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return end == ".png" || end == ".jpg" || end == ".jpeg";
}

DatasetInfo pack_images(const PackImagesOptions& options,
                        const std::function<void(const std::string&)>& skipped) {
    if (const std::string reason = no_image_files(); !reason.empty())
        throw UsageError("trainer pack images: image files cannot be read", reason);
    const PackNormalisation normalisation(options.mean, options.std);
    DatasetInfo info;
    info.class_names = folders_in(options.folder, "put the images of each class into a folder of its name");
    info.classes = static_cast<std::int64_t>(info.class_names.size());
    std::vector<Source> sources;
    for (std::size_t label = 0; label < info.class_names.size(); ++label)
        for (std::string& path :
             images_below((fs::path(options.folder) / info.class_names[label]).string(), options.output)) {
            refuse_overwriting(options.output, path);
            sources.push_back({std::move(path), static_cast<std::int64_t>(label)});
        }

    ImageSampleReader reader({options.height, options.width, options.channels}, options.output);
    // Of the first that can be read, before all others are.
    const auto take_shape = [&] {
        if (info.sample_shape.rank() > 0) return;
        info.sample_shape = reader.shape();
        normalisation.put_into(info);
    };
    if (skipped) {
        std::vector<Source> left;
        for (const std::size_t i : readable_samples(
                 sources.size(), options.threads, reader, options.output,
                 [&](std::size_t index) {
                     reader.read(sources[index].path);
                     take_shape();
                 },
                 skipped))
            left.push_back(std::move(sources[i]));
        sources = std::move(left);
    }
    if (sources.empty()) throw DataError(options.folder + ": no image could be read", "check the files");
    reader.read(sources.front().path);
    info.samples = static_cast<std::int64_t>(sources.size());
    take_shape();

    // Waits for what its threads still read, which may be long: after the writer has removed what it began.
    InOrder<Image> images(sources.size(), options.threads,
                          [&](std::size_t i) { return reader.read(sources[i].path); });
    DatasetWriter writer(options.output, info,
                         "images: " + fs::path(options.folder).lexically_normal().filename().string(),
                         Paths::stored);
    std::vector<std::byte> piece;
    std::vector<std::int64_t> labels;
    std::vector<std::string> paths;
    for (const Source& source : sources) {
        const Image image = images.next([&options] { end_if_stopped(options.output); });
        piece.insert(piece.end(), image.pixels.begin(), image.pixels.end());
        labels.push_back(source.label);
        paths.push_back(source.path);
        if (options.from) options.from({source.path});
        if (static_cast<std::int64_t>(piece.size()) < packed_piece_bytes && &source != &sources.back())
            continue;
        writer.append(piece, labels, {}, paths);
        piece.clear();
        labels.clear();
        paths.clear();
    }
    writer.commit();
    return info;
}

}  // namespace tutti
