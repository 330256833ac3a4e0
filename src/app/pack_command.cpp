#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <functional>
#include <system_error>

#include "command_line.hpp"
#include "output_file.hpp"
#include "packed_index.hpp"
#include "table_options.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/comm/launch.hpp"
#include "tutti/input/pack.hpp"
#include "tutti/train/report_file.hpp"

namespace tutti {
namespace {

void add_common_options(OptionParser& parser, std::string& output, std::vector<float>& mean,
                        std::vector<float>& std) {
    parser.add_option("-o,--output", output, "the HDF5 file to write").required();
    const ParserOption means = parser
                                   .add_option("--mean", mean,
                                               "stored in the file to normalise by: one mean for all, or one "
                                               "for each channel (of pixels from 0 "
                                               "to 1) or feature")
                                   .delimiter(',');
    parser.add_option("--std", std, "as many standard deviations")
        .delimiter(',')
        .needs(means)
        .needed_by(means);
}

void add_class_names(OptionParser& parser, std::vector<std::string>& names) {
    parser.add_option("--class-names", names, "names of the classes, separated by commas").delimiter(',');
}

/// Before the sources are read, which may take hours.
void check_output(const std::string& output) {
    refuse_other_than_dataset(output);
    prepare_output(output);
}

int print(const std::string& output, const DatasetInfo& info, const std::string& more = {}) {
    if (const std::string doubt = doubt_about_units(info); !doubt.empty())
        fmt::print(stderr, "warning: {}\n", doubt);
    fmt::print("{}: {} samples {} {}, {}{}\n", output, info.samples, to_string(info.sample_shape),
               name_of(info.dtype), describe_wanted(info), more);
    return 0;
}

int pack_idx_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs a pair of IDX files (the format of MNIST; plain or gzip) into one HDF5 data set.",
        "trainer pack idx");
    PackIdxOptions options;
    parser.add_option("--images", options.images, "IDX file of u8 images [N, H, W]").required();
    parser.add_option("--labels", options.labels, "IDX file of u8 labels [N]").required();
    add_common_options(parser, options.output, options.mean, options.std);
    add_class_names(parser, options.class_names);
    if (!parse_arguments(parser, arguments)) return 0;
    check_output(options.output);
    return print(options.output, pack_idx(options));
}

/// "224" or "224x160": height and width.
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

void add_image_options(OptionParser& parser, std::string& size, std::int64_t& channels) {
    parser.add_option(
        "--size", size,
        "pixels of each side, or HEIGHTxWIDTH: images are scaled until both sides are large enough, and "
        "their centre is taken; without it all must be of one size");
    parser.add_option("--channels", channels, "1: grey, 3: RGB; default: as the first image").one_of({1, 3});
}

/// Each thread holds what it reads.
void add_threads_option(OptionParser& parser, int& threads, const std::string& what_they_hold) {
    threads = std::clamp(static_cast<int>(bound_cores().size()), 1, 16);
    parser
        .add_option("--threads", threads,
                    "threads that read " + what_they_hold +
                        "; default: the cores that the program may use, at most 16")
        .in_range(1, 1024);
}

/// What is left out where errors are skipped.
struct LeftOut {
    bool wanted = false;
    std::int64_t count = 0;

    std::function<void(const std::string&)> note() {
        if (!wanted) return {};
        return [this](const std::string& reason) {
            fmt::print(stderr, "warning: {}\n", reason);
            ++count;
        };
    }
    std::string text(const char* things) const {
        return count > 0 ? fmt::format("; {} {} were left out", count, things) : "";
    }
};

int pack_images_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs PNG and JPEG files into one HDF5 data set: a folder per class in DIR, with images at any "
        "depth, as "
        "torchvision's ImageFolder reads them. Classes are the sorted names of the folders.",
        "trainer pack images");
    PackImagesOptions options;
    std::string size;
    LeftOut left_out;
    parser.add_option("--dir", options.folder, "folder with a folder per class").required();
    add_image_options(parser, size, options.channels);
    parser.add_flag(
        "--skip-errors", left_out.wanted,
        "leave out files that cannot be read or do not match the first, and count them; all are read "
        "twice then");
    add_threads_option(parser, options.threads,
                       "images; each may hold one as large as it is in memory (100 megapixels in colour: "
                       "300 MB) and two samples");
    add_common_options(parser, options.output, options.mean, options.std);
    PackedIndex index;
    index.add_option(parser, {"path"});
    if (!parse_arguments(parser, arguments)) return 0;
    if (!size.empty()) std::tie(options.height, options.width) = parse_size(size);
    check_output(options.output);
    index.prepare(options.output);
    options.from = index.note();
    const DatasetInfo info = pack_images(options, left_out.note());
    index.write();
    return print(options.output, info, left_out.text("files"));
}

int pack_clips_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs clips into one HDF5 data set. A clip is a folder of PNG and JPEG files, its frames in the "
        "order of their names; a sample has the channels of all frames at each pixel. Clips are the folders "
        "in the folder of each class, or are listed in a table.",
        "trainer pack clips");
    PackClipsOptions options;
    std::string size;
    LeftOut left_out;
    bool no_labels = false;
    parser.add_option(
        "--dir", options.folder,
        "folder with a folder per class, in it one per clip; with --csv: where its paths begin");
    const ParserOption csv =
        parser.add_option("--csv", options.csv,
                          "table of clips: the first line names the columns, of which path (the "
                          "clip's folder) and label (a number from 0 on) are read");
    const ParserOption bare = parser
                                  .add_flag("--no-labels", no_labels,
                                            "the table has none: data to predict, or for masked pre-training")
                                  .needs(csv);
    TableOptions table;
    table.add_target(parser).needs(csv).excludes(bare);
    table.add_keep(parser).needs(csv);
    parser
        .add_option("--frames", options.frames,
                    "frames of a sample: the first of a clip; a shorter one repeats its last")
        .show_default()
        .in_range(1, 4096);
    add_image_options(parser, size, options.channels);
    parser.add_flag(
        "--skip-errors", left_out.wanted,
        "leave out clips of which a frame cannot be read or does not match the first, and count them; all "
        "are read twice then");
    add_threads_option(parser, options.threads, "clips; each may hold three samples and an image");
    add_common_options(parser, options.output, options.mean, options.std);
    PackedIndex index;
    index.add_option(parser, {"path"});
    add_class_names(parser, options.class_names);
    if (!parse_arguments(parser, arguments)) return 0;
    if (!size.empty()) std::tie(options.height, options.width) = parse_size(size);
    if (options.csv.empty() && options.folder.empty())
        throw UsageError("there are no clips to pack",
                         "give --dir DIR with a folder per class, or --csv FILE");
    if (options.csv.empty() && !options.class_names.empty())
        throw UsageError("--class-names is for --csv: the folders in --dir name the classes", "leave it out");
    table.refuse(options.class_names);
    options.targets = table.targets;
    options.keep = table.kept_values();
    options.labelled = !no_labels;
    LeftOutRows rows;
    check_output(options.output);
    index.prepare(options.output);
    options.from = index.note();
    const DatasetInfo info = pack_clips(options, left_out.note(), &rows);
    index.write();
    return print(options.output, info, text_of(rows) + left_out.text("clips"));
}

int pack_features_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs features of the seconds of videos into one HDF5 data set: a sample per second, labelled by "
        "whether it is inside of a segment that was chosen.",
        "trainer pack features");
    PackFeaturesOptions options;
    LeftOut left_out;
    parser
        .add_option(
            "--labels", options.labels,
            "JSON list of parts of videos: youtube_id, timeRange [begin, end], segments [[begin, end], "
            "...], in seconds")
        .required();
    parser
        .add_option("--features", options.folders,
                    "folder of ID.npy files [seconds, features] of f16, f32 or f64; several, separated by "
                    "commas, are put side by side")
        .delimiter(',')
        .required();
    parser.add_flag("--skip-errors", left_out.wanted,
                    "leave out parts whose files are missing, damaged or do not match the first, and count "
                    "them; all are read twice then");
    add_threads_option(parser, options.threads, "files; each may hold 16 MiB");
    add_common_options(parser, options.output, options.mean, options.std);
    PackedIndex index;
    index.add_option(parser, {"id", "second"});
    if (!parse_arguments(parser, arguments)) return 0;
    check_output(options.output);
    index.prepare(options.output);
    options.from = index.note();
    const DatasetInfo info = pack_features(options, left_out.note());
    index.write();
    return print(options.output, info, left_out.text("parts"));
}

int pack_csv_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs a table into one HDF5 data set of feature vectors: the first line names the columns, all but "
        "the label's or the targets' are features, which are numbers. Labels that are whole numbers, from 0 "
        "on, stay what they are; others are names, numbered in sorted order.",
        "trainer pack csv");
    PackCsvOptions options;
    std::string delimiter = ",";
    parser.add_option("--csv", options.csv, "the table").required();
    bool no_labels = false;
    const ParserOption label =
        parser.add_option("--label", options.label, "name of the column with the labels");
    const ParserOption bare =
        parser.add_flag("--no-labels", no_labels, "there is none: data to predict").excludes(label);
    TableOptions table;
    table.add_target(parser).excludes(label).excludes(bare);
    table.add_keep(parser);
    parser.add_option("--drop", options.drop, "names of columns to leave out, separated by commas")
        .delimiter(',');
    parser.add_option("--delimiter", delimiter, "one character between fields, or tab").show_default();
    add_common_options(parser, options.output, options.mean, options.std);
    PackedIndex index;
    index.add_option(parser, {"line"});
    add_class_names(parser, options.class_names);
    if (!parse_arguments(parser, arguments)) return 0;
    if (delimiter == "tab" || delimiter == "\\t") delimiter = "\t";
    if (delimiter.size() != 1 || delimiter == "\"" || delimiter == "\n")
        throw UsageError("--delimiter " + delimiter + " is not one character", "write , or ; or tab");
    options.delimiter = delimiter.front();
    options.targets = table.targets;
    options.keep = table.kept_values();
    table.refuse(options.class_names);
    options.labelled = !no_labels && options.targets.empty();
    if (options.labelled && options.label.empty())
        throw UsageError(
            "the column with the labels is not named",
            "give --label COLUMN, --target COLUMNS for regression, or --no-labels for data to predict");
    const auto warn = [](const std::string& text) { fmt::print(stderr, "warning: {}\n", text); };
    LeftOutRows left_out;
    check_output(options.output);
    index.prepare(options.output);
    options.from = index.note();
    const DatasetInfo info = pack_csv(options, warn, &left_out);
    index.write();
    return print(options.output, info, text_of(left_out));
}

}  // namespace

int pack_command(const Arguments& arguments) {
    const std::vector<std::string> formats = {"idx", "images", "clips", "features", "csv"};
    if (arguments.empty() || arguments.front() == "--help" || arguments.front() == "-h") {
        fmt::print(
            "trainer pack idx --images F --labels F -o OUT.h5      a pair of IDX files (MNIST's format)\n"
            "trainer pack images --dir DIR [--size S] -o OUT.h5    PNG and JPEG files, a folder per class\n"
            "trainer pack clips --dir DIR [--frames N] -o OUT.h5   folders of frames, in a folder per class\n"
            "trainer pack features --labels F --features DIR,... -o OUT.h5   features of the seconds of "
            "videos\n"
            "trainer pack csv --csv F --label COLUMN -o OUT.h5     a table of numbers (or --target ...)\n");
        return arguments.empty() ? static_cast<int>(ExitCode::usage) : 0;
    }
    const Arguments rest(arguments.begin() + 1, arguments.end());
    // The packers end where a signal asks for it, and remove what they began. A file that is larger than
    // `ulimit -f` allows must be a failed write, which is told and cleaned up, instead of the end.
    const StopSignal signals;
    std::signal(SIGXFSZ, SIG_IGN);
    if (arguments.front() == "idx") return pack_idx_command(rest);
    if (arguments.front() == "images") return pack_images_command(rest);
    if (arguments.front() == "clips") return pack_clips_command(rest);
    if (arguments.front() == "features") return pack_features_command(rest);
    if (arguments.front() == "csv") return pack_csv_command(rest);
    const std::string near = nearest(arguments.front(), formats);
    throw UsageError(
        "trainer pack knows no format " + arguments.front(),
        near.empty() ? "there are idx, images, clips, features and csv" : "did you mean " + near + "?");
}

}  // namespace tutti
