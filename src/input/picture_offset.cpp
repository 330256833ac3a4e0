#include "picture_offset.hpp"

#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "image_file.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Takes "_123" from the end of `name`.
std::optional<double> take_number(std::string_view& name) {
    const std::size_t before = name.find_last_of('_');
    if (before == std::string_view::npos) return {};
    long long number = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, status] = std::from_chars(name.data() + before + 1, end, number);
    if (status != std::errc() || rest != end) return {};
    name = name.substr(0, before);
    return static_cast<double>(number);
}

}  // namespace

PictureOffset offset_in_name(const std::string& path) {
    std::filesystem::path named = std::filesystem::path(path).lexically_normal();
    if (!named.has_filename()) named = named.parent_path();  // "clip/"
    const std::string name = (has_image_name(path) ? named.stem() : named.filename()).string();
    std::string_view left = name;
    const std::optional<double> y = take_number(left), x = y ? take_number(left) : y;
    if (!x)
        throw DataError(path +
                            ": its name does not end in two numbers, as frame_213_196 does, so that it is "
                            "not known where it lies in the picture",
                        "rename it, or list x and y in two columns of a table: --csv FILE --placements X,Y");
    return {*x, *y};
}

SamplePlacement placement_in_picture(const PictureOffset& image, const Placement& in_sample) {
    const auto &columns = in_sample.columns, &rows = in_sample.rows;
    return {image.x + columns.source(0), image.y + rows.source(0), columns.step(), rows.step()};
}

}  // namespace tutti
