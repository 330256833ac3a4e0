#pragma once
// Image files as samples of one shape: what packers of images share.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "image_file.hpp"
#include "image_placement.hpp"
#include "tutti/base/shape.hpp"

namespace tutti {

/// Pixels and channels of samples; 0 for what the first file decides.
struct ImageForm {
    std::int64_t height = 0, width = 0, channels = 0;
    Fit fit = Fit::crop;  ///< how images get the size that is asked for
};

/// An image of the samples' form, and where the file's image lies in it.
struct PlacedImage {
    Image image;
    Placement placement;
};

/// Reads files as samples of one shape, the first readable file's or the one that was asked for. Once a file
/// was read, several threads may.
class ImageSampleReader {
  public:
    /// With a size images are made to fit it. output: what a signal is told of (end_if_stopped).
    ImageSampleReader(const ImageForm& wanted, std::string output);

    bool knows_shape() const { return !first_.empty(); }
    Shape shape() const { return {shape_.height, shape_.width, shape_.channels}; }

    /// Throws DataError naming the file, RunError where a signal asked to stop.
    PlacedImage read(const std::string& path);

  private:
    PlacedImage convert(const std::string& path);

    const ImageForm wanted_;
    const std::string output_;
    ImageForm shape_;
    std::string first_;
};

/// Which of the samples 0, …, count − 1 can be read; `skipped` is told why of the others, in order. They are
/// read one by one until the reader knows its shape, then on `threads` threads.
std::vector<std::size_t> readable_samples(std::size_t count, int threads, const ImageSampleReader& reader,
                                          const std::string& output,
                                          const std::function<void(std::size_t)>& read,
                                          const std::function<void(const std::string&)>& skipped);

/// The names of the folders in `folder`, sorted; hidden ones do not count. Throws DataError where there is
/// none: `remedy` says what belongs there.
std::vector<std::string> folders_in(const std::string& folder, const std::string& remedy);

/// Of a folder that cannot be listed.
[[noreturn]] void fail_listing(const std::string& folder, const std::string& reason);

}  // namespace tutti
