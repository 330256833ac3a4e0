#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "dataset_writer.hpp"
#include "image_file.hpp"
#include "image_packer.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// Whether one of the folders above leads here, too: a link that goes round in a circle. Those above `top`
/// count: below them lie other classes.
bool is_within_itself(const fs::path& folder, const fs::path& top) {
    std::error_code ignored;
    for (fs::path above = folder.parent_path(); above.native().size() >= top.native().size();
         above = above.parent_path()) {
        if (fs::equivalent(above, folder, ignored)) return true;
        if (above == top || above == above.parent_path()) break;
    }
    const fs::path to = fs::canonical(folder, ignored), from = fs::canonical(top, ignored);
    return !to.empty() && std::ranges::mismatch(to, from).in1 == to.end();
}

std::vector<std::string> images_below(const std::string& folder, const PackImagesOptions& packing) {
    std::vector<std::string> paths;
    std::error_code error, ignored;
    constexpr auto options = fs::directory_options::follow_directory_symlink;
    std::string at = folder;
    for (auto entry = fs::recursive_directory_iterator(folder, options, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        end_if_stopped(packing.output);
        const std::string name = entry->path().filename().string();
        const bool folder_below = entry->is_directory(ignored);
        if (folder_below) at = entry->path().string();  // which the next step may fail to list
        if (name.starts_with('.') ||
            (folder_below && entry->is_symlink(ignored) && is_within_itself(entry->path(), folder))) {
            if (folder_below) entry.disable_recursion_pending();
        } else if (has_image_name(name) && !folder_below) {
            paths.push_back(entry->path().string());
        } else if (!folder_below && packing.passed_over) {
            packing.passed_over(entry->path().string());
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
    const std::string end = lower_case(fs::path(path).extension().string());
    return end == ".png" || end == ".jpg" || end == ".jpeg";
}

DatasetInfo pack_images(const PackImagesOptions& options,
                        const std::function<void(const std::string&)>& skipped, RowCounts* rows) {
    const auto list_folder = [&options](DatasetInfo& info) {
        info.class_names =
            folders_in(options.folder, "put the images of each class into a folder of its name");
        info.classes = static_cast<std::int64_t>(info.class_names.size());
        std::vector<ListedSample> images;
        for (std::size_t label = 0; label < info.class_names.size(); ++label)
            for (std::string& path :
                 images_below((fs::path(options.folder) / info.class_names[label]).string(), options))
                images.push_back({std::move(path), static_cast<std::int64_t>(label), {}});
        return images;
    };
    const auto read = [](ImageSampleReader& reader, const ListedSample& source) {
        PlacedImage image = reader.read(source.path);
        return ImageSample{std::move(image.image.pixels), image.placement};
    };
    return pack_image_samples(options, {"image", 1, list_folder, read}, skipped, rows);
}

}  // namespace tutti
