#include "image_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "dataset_writer.hpp"
#include "in_order.hpp"
#include "resize.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

namespace fs = std::filesystem;

ImageSampleReader::ImageSampleReader(const ImageForm& wanted, std::string output)
    : wanted_(wanted), output_(std::move(output)), shape_(wanted) {}

PlacedImage ImageSampleReader::read(const std::string& path) {
    end_if_stopped(output_);
    try {
        return convert(path);
    } catch (const std::bad_alloc&) {
        throw DataError(path + ": there is not the memory for its pixels",
                        "make it smaller or remove it, give --threads 1, or leave such files out with "
                        "--skip-errors");
    }
}

PlacedImage ImageSampleReader::convert(const std::string& path) {
    Image image = read_image_file(path, static_cast<int>(wanted_.channels));
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
    const bool fits = image.height == shape_.height && image.width == shape_.width;
    if (!fits && wanted_.height == 0)
        throw DataError(fmt::format("{} has {} x {} pixels, but {} has {} x {}", path, image.height,
                                    image.width, first_, shape_.height, shape_.width),
                        fmt::format("give --size, for example --size {}x{}", shape_.height, shape_.width));
    const Placement placement =
        place_image(image.height, image.width, shape_.height, shape_.width, wanted_.fit);
    if (!fits) image = resize(image, placement);
    return {std::move(image), placement};
}

std::vector<std::size_t> readable_samples(std::size_t count, int threads, const ImageSampleReader& reader,
                                          const std::string& output,
                                          const std::function<void(std::size_t)>& read,
                                          const std::function<void(const std::string&)>& skipped) {
    std::vector<std::size_t> left;
    const auto end_if_told = [&output] { end_if_stopped(output); };
    const auto look = [&](std::size_t index, const std::function<void()>& try_it) {
        end_if_told();
        try {
            try_it();
            left.push_back(index);
        } catch (const DataError& error) {
            skipped(error.what());
        }
    };
    std::size_t done = 0;
    for (; done < count && !reader.knows_shape(); ++done) look(done, [&] { read(done); });
    InOrder<bool> rest(count - done, threads, [&read, done](std::size_t i) {
        read(done + i);
        return true;
    });
    for (; done < count; ++done) look(done, [&] { rest.next(end_if_told); });
    return left;
}

std::vector<std::string> folders_in(const std::string& folder, const std::string& remedy) {
    std::vector<std::string> names;
    std::error_code error, ignored;
    for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error))
        if (entry->is_directory(ignored) && !entry->path().filename().string().starts_with('.'))
            names.push_back(entry->path().filename().string());
    if (error) fail_listing(folder, error.message());
    if (names.empty()) throw DataError(folder + ": there is no folder in it", remedy);
    std::ranges::sort(names);
    return names;
}

void fail_listing(const std::string& folder, const std::string& reason) {
    throw DataError(folder + ": cannot be listed: " + reason, "check the path given with --dir");
}

}  // namespace tutti
