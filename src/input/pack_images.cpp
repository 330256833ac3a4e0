#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <new>
#include <system_error>

#include "dataset_writer.hpp"
#include "image_file.hpp"
#include "in_order.hpp"
#include "resize.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

struct Source {
    std::string path;
    std::int64_t label = 0;
};

[[noreturn]] void fail_listing(const std::string& folder, const std::error_code& error) {
    throw DataError(folder + ": cannot be listed: " + error.message(), "check the path given with --dir");
}

/// The folders in `folder`, sorted by name; hidden ones do not count.
std::vector<std::string> class_folders(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error, ignored;
    for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error))
        if (entry->is_directory(ignored) && !entry->path().filename().string().starts_with('.'))
            names.push_back(entry->path().filename().string());
    if (error) fail_listing(folder, error);
    if (names.empty())
        throw DataError(folder + ": there is no folder in it",
                        "put the images of each class into a folder of its name");
    std::ranges::sort(names);
    return names;
}

std::vector<std::string> images_below(const std::string& folder, const std::string& output) {
    std::vector<std::string> paths;
    std::error_code error, ignored;
    constexpr auto options = fs::directory_options::follow_directory_symlink;
    for (auto entry = fs::recursive_directory_iterator(folder, options, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        end_if_stopped(output);
        const std::string name = entry->path().filename().string();
        if (!name.starts_with('.') && has_image_name(name) && !entry->is_directory(ignored))
            paths.push_back(entry->path().string());
    }
    if (error) fail_listing(folder, error);
    if (paths.empty())
        throw DataError(folder + ": there is no image in it",
                        "names must end in .png, .jpg or .jpeg; remove the folder if it is no class");
    std::ranges::sort(paths);
    return paths;
}

/// Reads files as samples of one shape, the first readable file's or the one that was asked for. Once a file
/// was read, several threads may.
class SampleReader {
  public:
    explicit SampleReader(const PackImagesOptions& options) : options_(options) {
        shape_ = {options.height, options.width, options.channels, {}};
    }

    bool knows_shape() const { return !first_.empty(); }
    Shape shape() const { return {shape_.height, shape_.width, shape_.channels}; }

    Image read(const std::string& path) {
        end_if_stopped(options_.output);
        try {
            return convert(path);
        } catch (const std::bad_alloc&) {
            throw DataError(path + ": there is not the memory for its pixels",
                            "make it smaller or remove it, give --threads 1, or leave such files out with "
                            "--skip-errors");
        }
    }

  private:
    Image convert(const std::string& path) {
        Image image = read_image_file(path, static_cast<int>(options_.channels));
        if (!knows_shape()) {
            if (shape_.channels == 0) shape_.channels = image.channels;
            if (shape_.height == 0) {
                shape_.height = image.height;
                shape_.width = image.width;
            }
            first_ = path;
        }
        if (image.channels > shape_.channels)
            throw DataError(path + " is in colour, but the files before it are grey",
                            "give --channels 3, or 1 for all in grey");
        // A grey file among colour ones.
        if (image.channels < shape_.channels) image = read_image_file(path, 3);
        if (options_.height > 0) return resize_and_crop(image, shape_.height, shape_.width);
        if (image.height != shape_.height || image.width != shape_.width)
            throw DataError(
                fmt::format("{} has {} x {} pixels, but {} has {} x {}", path, image.height, image.width,
                            first_, shape_.height, shape_.width),
                fmt::format("give --size, for example --size {}x{}", shape_.height, shape_.width));
        return image;
    }

    const PackImagesOptions& options_;
    Image shape_;  // without pixels; 0 for what is not known yet
    std::string first_;
};

/// Without those that cannot be read, which `skipped` is told; needs every file once more than packing.
void leave_out_unreadable(std::vector<Source>& sources, SampleReader& reader,
                          const PackImagesOptions& options,
                          const std::function<void(const std::string&)>& skipped) {
    std::vector<Source> left;
    const auto end_if_told = [&options] { end_if_stopped(options.output); };
    const auto look = [&](Source& source, const std::function<void()>& read) {
        end_if_told();
        try {
            read();
            left.push_back(std::move(source));
        } catch (const DataError& error) {
            skipped(error.what());
        }
    };
    std::size_t done = 0;
    for (; done < sources.size() && !reader.knows_shape(); ++done)
        look(sources[done], [&] { reader.read(sources[done].path); });
    // Threads read the paths of sources that come later than those which are moved from.
    InOrder<bool> rest(sources.size() - done, options.threads, [&, done](std::size_t i) {
        return !reader.read(sources[done + i].path).pixels.empty();
    });
    for (; done < sources.size(); ++done) look(sources[done], [&] { rest.next(end_if_told); });
    sources = std::move(left);
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
    DatasetInfo info;
    info.class_names = class_folders(options.folder);
    info.classes = static_cast<std::int64_t>(info.class_names.size());
    info.mean = options.mean;
    info.std = options.std;
    std::vector<Source> sources;
    for (std::size_t label = 0; label < info.class_names.size(); ++label)
        for (std::string& path :
             images_below((fs::path(options.folder) / info.class_names[label]).string(), options.output)) {
            refuse_overwriting(options.output, path);
            sources.push_back({std::move(path), static_cast<std::int64_t>(label)});
        }

    SampleReader reader(options);
    if (skipped) leave_out_unreadable(sources, reader, options, skipped);
    if (sources.empty()) throw DataError(options.folder + ": no image could be read", "check the files");
    reader.read(sources.front().path);
    info.samples = static_cast<std::int64_t>(sources.size());
    info.sample_shape = reader.shape();

    // Waits for what its threads still read, which may be long: after the writer has removed what it began.
    InOrder<Image> images(sources.size(), options.threads,
                          [&](std::size_t i) { return reader.read(sources[i].path); });
    DatasetWriter writer(options.output, info,
                         "images: " + fs::path(options.folder).lexically_normal().filename().string());
    std::vector<std::byte> piece;
    std::vector<std::int64_t> labels;
    for (const Source& source : sources) {
        const Image image = images.next([&options] { end_if_stopped(options.output); });
        piece.insert(piece.end(), image.pixels.begin(), image.pixels.end());
        labels.push_back(source.label);
        if (static_cast<std::int64_t>(piece.size()) < packed_piece_bytes && &source != &sources.back())
            continue;
        writer.append(piece, labels);
        piece.clear();
        labels.clear();
    }
    writer.commit();
    return info;
}

}  // namespace tutti
