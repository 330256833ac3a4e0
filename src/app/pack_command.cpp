#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "image_source_arguments.hpp"
#include "output_file.hpp"
#include "packed_index.hpp"
#include "table_options.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/base/units.hpp"
#include "tutti/input/label_summary.hpp"
#include "tutti/input/pack.hpp"
#include "tutti/input/split_folders.hpp"

namespace tutti {
namespace {

void add_common_options(OptionParser& parser, std::string& output, std::vector<float>& mean,
                        std::vector<float>& std) {
    parser.add_path("-o,--output", output, "the HDF5 file to write").required();
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

/// Before the sources are read, which may take hours. The path to write to: prepare_output().
std::string checked_output(const std::string& output) {
    refuse_other_than_dataset(output);
    return prepare_output(output);
}

/// Labels that are counted from 1, as MATLAB and R count: class 0 would stay empty, and other data that are
/// counted from 0 would be one class off. Empty where nothing speaks for it. by_name: whether --class-names
/// gives labels their places.
std::string doubt_about_packed(const std::string& output, const DatasetInfo& info, bool by_name) {
    // Where that alone tells, the labels are not read.
    if (!info.labelled || doubt_about_labels(info, true).empty()) return {};
    const bool first_class_empty = summarize_labels(*open_hdf5_dataset(output)).first_class_empty;
    const std::string doubt = doubt_about_labels(info, first_class_empty);
    if (doubt.empty()) return {};
    constexpr std::int64_t longest_list = 20;
    std::string names = "1,2,...";
    if (info.classes <= longest_list + 1) {
        names = "1";
        for (std::int64_t label = 2; label < info.classes; ++label) names += fmt::format(",{}", label);
    }
    return fmt::format("{}; if these labels are counted from 1, {}", doubt,
                       by_name ? "give --class-names " + names : "subtract 1 from them before");
}

/// by_name: see doubt_about_packed().
int print(const std::string& output, const DatasetInfo& info, const std::string& more = {},
          bool by_name = true) {
    if (const std::string doubt = doubt_about_packed(output, info, by_name); !doubt.empty())
        fmt::print(stderr, "warning: {}: {}\n", output, doubt);
    if (const std::string doubt = doubt_about_units(info); !doubt.empty())
        fmt::print(stderr, "warning: {}\n", doubt);
    fmt::print("{}: {} {} {}, {}{}\n", output, counted(info.samples, "sample"), to_string(info.sample_shape),
               name_of(info.dtype), describe_wanted(info), more);
    return 0;
}

int pack_idx_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs a pair of IDX files (the format of MNIST; plain or gzip) into one HDF5 data set.",
        "trainer pack idx");
    PackIdxOptions options;
    parser.add_path("--images", options.images, "IDX file of u8 images [N, H, W]").required();
    parser.add_path("--labels", options.labels, "IDX file of u8 labels [N]").required();
    add_common_options(parser, options.output, options.mean, options.std);
    add_class_names(parser, options.class_names);
    if (!parse_arguments(parser, arguments)) return 0;
    options.output = checked_output(options.output);
    return print(options.output, pack_idx(options), {}, false);
}

/// What is said of a file that is left out, without the advice to do so.
std::string without_advice(std::string text) {
    const std::string option = "--skip-errors";
    const auto end = text.find(option), begin = text.rfind("leave such", end);
    if (end == std::string::npos || begin == std::string::npos) return text;
    for (const std::string before : {", or ", ", ", "; "})
        if (begin >= before.size() && text.compare(begin - before.size(), before.size(), before) == 0)
            return text.erase(begin - before.size(), end + option.size() - begin + before.size());
    return text;
}

/// What is left out where errors are skipped.
struct LeftOut {
    bool wanted = false;
    std::int64_t count = 0;

    std::function<void(const std::string&)> note() {
        if (!wanted) return {};
        return [this](const std::string& reason) {
            fmt::print(stderr, "warning: {}\n", without_advice(reason));
            ++count;
        };
    }
    std::string text(const std::string& thing) const {
        return count > 0 ? fmt::format("; {} left out", counted(count, thing + " was", thing + "s were"))
                         : "";
    }
};

/// Files that are no images by their names: people take them for packed.
class PassedOver {
  public:
    void add(const std::string& path) {
        const std::string end = lower_case(std::filesystem::path(path).extension().string());
        ++counts_[end.empty() ? "without a suffix" : end];
        ++files_;
    }
    /// "; 6 files were passed over: .bmp 4, .webp 2", the most first.
    std::string text() const {
        if (files_ == 0) return {};
        std::vector<std::pair<std::string, std::int64_t>> sorted(counts_.begin(), counts_.end());
        std::ranges::stable_sort(sorted, std::ranges::greater(), &decltype(sorted)::value_type::second);
        constexpr std::size_t longest_list = 8;
        std::string list;
        std::int64_t listed = 0;
        for (const auto& [end, count] : sorted | std::views::take(longest_list)) {
            list += fmt::format("{}{} {}", list.empty() ? "" : ", ", end, count);
            listed += count;
        }
        if (listed < files_) list += fmt::format(", others {}", files_ - listed);
        return fmt::format("; {} passed over: {}", counted(files_, "file was", "files were"), list);
    }

  private:
    std::map<std::string, std::int64_t> counts_;
    std::int64_t files_ = 0;
};

/// levels: as refuse_splits() has it.
void look_for_splits(const std::string& folder, const std::string& table, int levels) {
    if (!table.empty()) return;  // which names the classes
    if (const std::string doubt = refuse_splits(folder, levels); !doubt.empty())
        fmt::print(stderr, "warning: {}\n", doubt);
}

int pack_images_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs PNG and JPEG files into one HDF5 data set: a folder per class, with images at any depth, as "
        "torchvision's ImageFolder reads them, whose classes are the sorted names of the folders; or what a "
        "table lists, with labels or numbers to be predicted.",
        "trainer pack images");
    PackImagesOptions options;
    ImageSourceArguments source("image", options);
    LeftOut left_out;
    source.add_source(parser, "images at any depth", "the image's path");
    source.add_form(parser);
    source.add_placements(parser);
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
    add_class_names(parser, options.class_names);
    if (!parse_arguments(parser, arguments)) return 0;
    source.finish();
    look_for_splits(options.folder, options.csv, 1);
    RowCounts rows;
    options.output = checked_output(options.output);
    index.prepare(options.output, options.csv);
    options.from = index.note();
    PassedOver passed_over;
    options.passed_over = [&passed_over](const std::string& path) { passed_over.add(path); };
    const DatasetInfo info = pack_images(options, left_out.note(), &rows);
    index.write();
    return print(options.output, info, text_of(rows) + left_out.text("file") + passed_over.text());
}

int pack_clips_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs clips into one HDF5 data set. A clip is a folder of PNG and JPEG files, its frames in the "
        "order of their names; a sample has the channels of all frames at each pixel. Clips are the folders "
        "in the folder of each class, or are listed in a table.",
        "trainer pack clips");
    PackClipsOptions options;
    ImageSourceArguments source("clip", options);
    LeftOut left_out;
    source.add_source(parser, "one per clip", "the path of the clip's folder");
    parser
        .add_option("--frames", options.frames,
                    "frames of a sample: the first of a clip; a shorter one repeats its last")
        .show_default()
        .in_range(1, 4096);
    const ParserOption range =
        parser
            .add_option("--range", options.frame_range,
                        "START,END: columns of the table with the first and the last frame of a clip, by the "
                        "number that their names end in; default: all frames of the folder")
            .delimiter(',');
    source.add_form(parser);
    source.add_placements(parser);
    parser.add_flag(
        "--skip-errors", left_out.wanted,
        "leave out clips of which a frame cannot be read or does not match the first, and count them; all "
        "are read twice then");
    add_threads_option(parser, options.threads, "clips; each may hold three samples and an image");
    add_common_options(parser, options.output, options.mean, options.std);
    PackedIndex index;
    index.add_option(parser, {"path"}, "; with --range also start,end");
    add_class_names(parser, options.class_names);
    if (!parse_arguments(parser, arguments)) return 0;
    source.finish();
    look_for_splits(options.folder, options.csv, 2);
    RowCounts rows;
    options.output = checked_output(options.output);
    index.prepare(options.output, options.csv);
    if (range.given()) index.add_columns({"start", "end"});
    options.from = index.note();
    if (range.given() && (options.frame_range.size() != 2 || options.csv.empty()))
        throw UsageError("--range is for two columns of a table", "write --csv FILE --range start,end");
    const DatasetInfo info = pack_clips(options, left_out.note(), &rows);
    if (rows.unread_range)
        fmt::print(
            stderr,
            "warning: {}: the columns start and end were not looked at: clips have the first frames of "
            "their folders; give --range start,end\n",
            options.csv);
    index.write();
    return print(options.output, info, text_of(rows) + left_out.text("clip"));
}

std::string text_of(const SequenceCounts& counts) {
    std::string text;
    if (counts.padding > 0)
        text +=
            fmt::format("; {} of {} seconds are padding", counts.padding, counts.padding + counts.seconds);
    if (counts.missed > 0)
        text += fmt::format("; {} left out, in which no second of {} part begins",
                            counted(counts.missed, "segment was", "segments were"),
                            counts.missed == 1 ? "its" : "their");
    return text;
}

int pack_features_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs features of the seconds of videos into one HDF5 data set: a sample per second, labelled by "
        "whether it is inside of a segment that was chosen, or with --sequences one per part of a "
        "video, with the place of the segment that each of its seconds is in.",
        "trainer pack features");
    PackSequencesOptions options;
    LeftOut left_out;
    bool sequences = false, no_labels = false;
    parser
        .add_path("--labels", options.labels,
                  "JSON list of parts of videos: youtube_id, timeRange [begin, end], segments [[begin, end], "
                  "...], in seconds")
        .required();
    parser
        .add_path("--features", options.folders,
                  "folder of ID.npy files [seconds, features] of f16, f32 or f64; several, separated by "
                  "commas, are put side by side")
        .delimiter(',')
        .required();
    const ParserOption whole = parser.add_flag(
        "--sequences", sequences,
        "a sample is a part, [seconds, features + 1]: the last feature is 1 where the second exists; seconds "
        "that a shorter part lacks are 0");
    parser
        .add_option("--length", options.length,
                    "with --sequences: seconds of a sample; default: those of the longest part")
        .whole_number()
        .in_range(1, 1000000)
        .needs(whole);
    parser.add_flag("--no-labels", no_labels, "segments are not read: data to predict");
    parser.add_flag("--skip-errors", left_out.wanted,
                    "leave out parts whose files are missing, damaged or do not match the first, or that are "
                    "longer than --length, and count them; all are read twice then");
    add_threads_option(parser, options.threads, "files; each may hold 16 MiB");
    add_common_options(parser, options.output, options.mean, options.std);
    PackedIndex index;
    index.add_option(parser, {"id", "second"});
    if (!parse_arguments(parser, arguments)) return 0;
    options.labelled = !no_labels;
    options.output = checked_output(options.output);
    index.prepare(options.output);
    options.from = index.note();
    SequenceCounts counts;
    const DatasetInfo info = sequences ? pack_sequences(options, left_out.note(), &counts)
                                       : pack_features(options, left_out.note());
    index.write();
    return print(options.output, info, text_of(counts) + left_out.text("part"));
}

int pack_csv_command(const Arguments& arguments) {
    OptionParser parser(
        "Packs a table into one HDF5 data set of feature vectors: the first line names the columns, all but "
        "the label's or the targets' are features, which are numbers. Labels that are whole numbers, from 0 "
        "on, stay what they are; others are names, numbered in sorted order.",
        "trainer pack csv");
    PackCsvOptions options;
    parser.add_path("--csv", options.csv, "the table").required();
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
    table.add_delimiter(parser);
    add_common_options(parser, options.output, options.mean, options.std);
    PackedIndex index;
    index.add_option(parser, {"line"});
    add_class_names(parser, options.class_names);
    if (!parse_arguments(parser, arguments)) return 0;
    options.delimiter = table.delimiter_character();
    options.targets = table.targets;
    options.keep = table.kept_values();
    table.refuse(options.class_names);
    options.labelled = !no_labels && options.targets.empty();
    if (options.labelled && options.label.empty())
        throw UsageError(
            "the column with the labels is not named",
            "give --label COLUMN, --target COLUMNS for regression, or --no-labels for data to predict");
    const auto warn = [](const std::string& text) { fmt::print(stderr, "warning: {}\n", text); };
    RowCounts rows;
    options.output = checked_output(options.output);
    index.prepare(options.output, options.csv);
    options.from = index.note();
    const DatasetInfo info = pack_csv(options, warn, &rows);
    index.write();
    return print(options.output, info, text_of(rows));
}

}  // namespace

int pack_command(const Arguments& arguments) {
    const std::vector<std::string> formats = {"idx", "images", "clips", "features", "csv"};
    if (arguments.empty())
        throw UsageError(
            "trainer pack: of what is not said",
            fmt::format("name one of {}; trainer pack --help tells more", fmt::join(formats, ", ")));
    if (arguments.front() == "--help" || arguments.front() == "-h") {
        fmt::print(
            "trainer pack idx --images F --labels F -o OUT.h5      a pair of IDX files (MNIST's format)\n"
            "trainer pack images --dir DIR [--size S] -o OUT.h5    PNG and JPEG files, a folder per class "
            "(or "
            "--csv F)\n"
            "trainer pack clips --dir DIR [--frames N] -o OUT.h5   folders of frames, in a folder per class "
            "(or "
            "--csv F)\n"
            "trainer pack features --labels F --features DIR,... -o OUT.h5   features of the seconds of "
            "videos (or --sequences, of whole parts)\n"
            "trainer pack csv --csv F --label COLUMN -o OUT.h5     a table of numbers (or --target ...)\n");
        return 0;
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
