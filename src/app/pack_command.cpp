#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <system_error>

#include "command_line.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/comm/launch.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

void add_common_options(CLI::App& app, std::string& output, std::vector<float>& mean,
                        std::vector<float>& std) {
    app.add_option("-o,--output", output, "the HDF5 file to write")->required();
    app.add_option(
           "--mean", mean,
           "normalisation stored in the file: mean per channel (of pixels after u8 -> [0, 1]) or feature")
        ->delimiter(',');
    app.add_option("--std", std, "standard deviation per channel or feature")->delimiter(',');
}

void add_class_names(CLI::App& app, std::vector<std::string>& names) {
    app.add_option("--class-names", names, "names of the classes, separated by commas")->delimiter(',');
}

int print(const std::string& output, const DatasetInfo& info, const std::string& more = {}) {
    const std::string labels = info.labelled ? fmt::format("{} classes", info.classes) : "no labels";
    fmt::print("{}: {} samples {} {}, {}{}\n", output, info.samples, to_string(info.sample_shape),
               name_of(info.dtype), labels, more);
    return 0;
}

int pack_idx_command(const Arguments& arguments) {
    CLI::App app("Packs a pair of IDX files (the format of MNIST; plain or gzip) into one HDF5 data set.",
                 "trainer pack idx");
    PackIdxOptions options;
    app.add_option("--images", options.images, "IDX file of u8 images [N, H, W]")->required();
    app.add_option("--labels", options.labels, "IDX file of u8 labels [N]")->required();
    add_common_options(app, options.output, options.mean, options.std);
    add_class_names(app, options.class_names);
    if (!parse_arguments(app, arguments)) return 0;
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

int pack_images_command(const Arguments& arguments) {
    CLI::App app(
        "Packs PNG and JPEG files into one HDF5 data set: a folder per class in DIR, with images at any "
        "depth, as "
        "torchvision's ImageFolder reads them. Classes are the sorted names of the folders.",
        "trainer pack images");
    PackImagesOptions options;
    std::string size;
    bool skip_errors = false;
    app.add_option("--dir", options.folder, "folder with a folder per class")->required();
    app.add_option(
        "--size", size,
        "pixels of each side, or HEIGHTxWIDTH: images are scaled until both sides are large enough, and "
        "their centre is taken; without it all must be of one size");
    app.add_option("--channels", options.channels, "1: grey, 3: RGB; default: as the first image")
        ->check(CLI::IsMember({1, 3}));
    app.add_flag(
        "--skip-errors", skip_errors,
        "leave out files that cannot be read or do not match the first, and count them; all are read "
        "twice then");
    // Each holds a decoded image.
    options.threads = std::clamp(static_cast<int>(bound_cores().size()), 1, 16);
    app.add_option(
           "--threads", options.threads,
           "threads that read images; each may hold one as large as it is in memory (100 megapixels in "
           "colour: 300 MB) and two samples; default: the cores that the program may use, at most 16")
        ->check(CLI::Range(1, 1024));
    add_common_options(app, options.output, options.mean, options.std);
    if (!parse_arguments(app, arguments)) return 0;
    if (!size.empty()) std::tie(options.height, options.width) = parse_size(size);
    std::int64_t skipped = 0;
    const auto note = [&](const std::string& reason) {
        fmt::print(stderr, "warning: {}\n", reason);
        ++skipped;
    };
    const DatasetInfo info = skip_errors ? pack_images(options, note) : pack_images(options);
    return print(options.output, info, skipped > 0 ? fmt::format("; {} files were left out", skipped) : "");
}

int pack_csv_command(const Arguments& arguments) {
    CLI::App app(
        "Packs a table into one HDF5 data set of feature vectors: the first line names the columns, all but "
        "the label's are numbers. Labels that are whole numbers, from 0 on, stay what they are; others are "
        "names, numbered in sorted order.",
        "trainer pack csv");
    PackCsvOptions options;
    std::string delimiter = ",";
    app.add_option("--csv", options.csv, "the table")->required();
    bool no_labels = false;
    auto* const label = app.add_option("--label", options.label, "name of the column with the labels");
    app.add_flag("--no-labels", no_labels, "there is none: data to predict")->excludes(label);
    app.add_option("--drop", options.drop, "names of columns to leave out, separated by commas")
        ->delimiter(',');
    app.add_option("--delimiter", delimiter, "one character between fields, or tab")->capture_default_str();
    add_common_options(app, options.output, options.mean, options.std);
    add_class_names(app, options.class_names);
    if (!parse_arguments(app, arguments)) return 0;
    if (delimiter == "tab" || delimiter == "\\t") delimiter = "\t";
    if (delimiter.size() != 1 || delimiter == "\"" || delimiter == "\n")
        throw UsageError("--delimiter " + delimiter + " is not one character", "write , or ; or tab");
    options.delimiter = delimiter.front();
    options.labelled = !no_labels;
    if (options.labelled && options.label.empty())
        throw UsageError("the column with the labels is not named",
                         "give --label COLUMN, or --no-labels for data to predict");
    const auto warn = [](const std::string& text) { fmt::print(stderr, "warning: {}\n", text); };
    return print(options.output, pack_csv(options, warn));
}

}  // namespace

int pack_command(const Arguments& arguments) {
    const std::vector<std::string> formats = {"idx", "images", "csv"};
    if (arguments.empty() || arguments.front() == "--help" || arguments.front() == "-h") {
        fmt::print(
            "trainer pack idx --images F --labels F -o OUT.h5      a pair of IDX files (MNIST's format)\n"
            "trainer pack images --dir DIR [--size S] -o OUT.h5    PNG and JPEG files, a folder per class\n"
            "trainer pack csv --csv F --label COLUMN -o OUT.h5     a table of numbers\n");
        return arguments.empty() ? static_cast<int>(ExitCode::usage) : 0;
    }
    const Arguments rest(arguments.begin() + 1, arguments.end());
    // The packers end where a signal asks for it, and remove what they began. A file that is larger than
    // `ulimit -f` allows must be a failed write, which is told and cleaned up, instead of the end.
    const StopSignal signals;
    std::signal(SIGXFSZ, SIG_IGN);
    if (arguments.front() == "idx") return pack_idx_command(rest);
    if (arguments.front() == "images") return pack_images_command(rest);
    if (arguments.front() == "csv") return pack_csv_command(rest);
    const std::string near = nearest(arguments.front(), formats);
    throw UsageError("trainer pack knows no format " + arguments.front(),
                     near.empty() ? "there are idx, images and csv" : "did you mean " + near + "?");
}

}  // namespace tutti
