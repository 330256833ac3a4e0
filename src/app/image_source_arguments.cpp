#include "image_source_arguments.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <tuple>

#include "tutti/base/error.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti {

std::pair<std::int64_t, std::int64_t> parse_size(const std::string& text) {
    std::int64_t height = 0, width = 0;
    const char* const end = text.data() + text.size();
    auto [rest, status] = std::from_chars(text.data(), end, height);
    width = height;
    if (status == std::errc() && rest != end && *rest == 'x') {
        const auto second = std::from_chars(rest + 1, end, width);
        rest = second.ptr;
        status = second.ec;
    }
    constexpr std::int64_t largest = 1 << 16;
    if (status != std::errc() || rest != end || std::min(height, width) < 1 ||
        std::max(height, width) > largest)
        throw UsageError("--size " + text + " is no size in pixels", "write 224 or 224x160 (height x width)");
    return {height, width};
}

void add_threads_option(OptionParser& parser, int& threads, const std::string& what_they_hold) {
    threads = std::clamp(static_cast<int>(bound_cores().size()), 1, 16);
    parser
        .add_option("--threads", threads,
                    "threads that read " + what_they_hold +
                        "; default: the cores that the program may use, at most 16")
        .in_range(1, 1024);
}

void ImageSourceArguments::add_source(OptionParser& parser, const std::string& in_folder,
                                      const std::string& path) {
    parser.add_path(
        "--dir", options_.folder,
        "folder with a folder per class, in it " + in_folder + "; with --csv: where relative paths begin");
    const ParserOption csv = parser.add_path(
        "--csv", options_.csv,
        "table of " + thing_ + "s: the first line names the columns; the others are one " + thing_ + " each");
    parser
        .add_option("--path-column", options_.path_column,
                    "column of the table with " + path + "; default: path, or where there is none image_path")
        .needs(csv);
    const ParserOption label =
        parser
            .add_option("--label", options_.label,
                        "column with the labels: numbers from 0 on, or names, which are numbered in sorted "
                        "order or as --class-names has them; default: label")
            .needs(csv);
    const ParserOption bare = parser
                                  .add_flag("--no-labels", no_labels_,
                                            "there are none: data to predict, or for masked pre-training")
                                  .needs(csv)
                                  .excludes(label);
    const ParserOption target = table_.add_target(parser).needs(csv).excludes(label).excludes(bare);
    table_.add_target_pixels(parser).needs(target);
    table_.add_fill_targets(parser).needs(target);
    table_.add_keep(parser).needs(csv);
    table_.add_delimiter(parser).needs(csv);
}

void ImageSourceArguments::add_placements(OptionParser& parser) {
    parser.add_option("--placements", placements_,
                      "also store where each sample lies in a larger picture, for distances on the earth "
                      "(data.latitudes): image: a file is the whole picture; name: the " +
                          std::string(thing_ == "image" ? "file's name" : "folder's name") +
                          " ends in _X_Y, where its first pixel is in the picture; COLUMN,COLUMN: the table "
                          "says x and y of that");
}

void ImageSourceArguments::add_form(OptionParser& parser) {
    const ParserOption size = parser.add_option(
        "--size", size_,
        "pixels of each side, or HEIGHTxWIDTH, that images are scaled to as --fit says; without it all must "
        "be of one size");
    parser
        .add_choice<Fit>(
            "--fit", options_.fit,
            "crop: images are scaled until both sides are large enough, and their centre is taken; "
            "letterbox: until both sides fit in, with black around; stretch: each side on its own; "
            "default: crop",
            {{"crop", Fit::crop}, {"letterbox", Fit::letterbox}, {"stretch", Fit::stretch}})
        .needs(size);
    parser.add_option("--channels", options_.channels, "1: grey, 3: RGB; default: as the first image")
        .one_of({1, 3});
}

void ImageSourceArguments::finish() {
    if (!size_.empty()) std::tie(options_.height, options_.width) = parse_size(size_);
    if (options_.csv.empty() && options_.folder.empty())
        throw UsageError("there are no " + thing_ + "s to pack",
                         "give --dir DIR with a folder per class, or --csv FILE");
    if (options_.csv.empty() && !options_.class_names.empty())
        throw UsageError("--class-names is for --csv: the folders in --dir name the classes", "leave it out");
    table_.refuse(options_.class_names);
    options_.delimiter = table_.delimiter_character();
    options_.targets = table_.targets;
    options_.target_pixels = table_.target_pixels;
    options_.fill_targets = table_.fill();
    options_.keep = table_.kept_values();
    options_.labelled = !no_labels_;
    if (!placements_.empty()) options_.placements = placement_source();
}

PlacementSource ImageSourceArguments::placement_source() const {
    using From = PlacementSource::From;
    if (placements_ == "image") return {From::image, {}, {}};
    if (placements_ == "name") return {From::name, {}, {}};
    const std::size_t comma = placements_.find(',');
    if (comma == 0 || comma == std::string::npos || comma + 1 == placements_.size() ||
        placements_.find(',', comma + 1) != std::string::npos)
        throw UsageError("--placements " + placements_ + " is neither image, name nor two columns",
                         "write --placements X,Y with the names of the columns");
    if (options_.csv.empty())
        throw UsageError("--placements " + placements_ + " names columns, but there is no table",
                         "give it with --csv, or write --placements name");
    return {From::columns, placements_.substr(0, comma), placements_.substr(comma + 1)};
}

}  // namespace tutti
