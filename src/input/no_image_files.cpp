// The twin of image_file.cpp for builds without libpng or libjpeg.
#include "image_file.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

std::string no_image_files() {
    return "this build has no libpng and libjpeg; install libpng-dev and libjpeg-dev and build again";
}

Image read_image_file(const std::string& path, int) {
    throw UsageError(path + ": image files cannot be read", no_image_files());
}

}  // namespace tutti
