#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "command_line.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

int pack_idx_command(const Arguments& arguments) {
    CLI::App app("Packs a pair of IDX files (the format of MNIST; plain or gzip) into one HDF5 data set.",
                 "trainer pack idx");
    PackIdxOptions options;
    app.add_option("--images", options.images, "IDX file of u8 images [N, H, W]")->required();
    app.add_option("--labels", options.labels, "IDX file of u8 labels [N]")->required();
    app.add_option("-o,--output", options.output, "the HDF5 file to write")->required();
    app.add_option("--class-names", options.class_names, "names of the classes, separated by commas")
        ->delimiter(',');
    app.add_option("--mean", options.mean,
                   "normalisation stored in the file: mean per channel, after u8 -> [0, 1]")
        ->delimiter(',');
    app.add_option("--std", options.std, "standard deviation per channel")->delimiter(',');
    if (!parse_arguments(app, arguments)) return 0;
    for (const std::string& source : {options.images, options.labels}) {
        std::error_code missing;  // a file that does not exist yet is no source
        if (std::filesystem::equivalent(source, options.output, missing))
            throw UsageError("-o " + options.output + " would overwrite " + source, "give another name");
    }
    const DatasetInfo info = pack_idx(options);
    fmt::print("{}: {} samples {} u8, {} classes\n", options.output, info.samples,
               to_string(info.sample_shape), info.classes);
    return 0;
}

}  // namespace

int pack_command(const Arguments& arguments) {
    const std::vector<std::string> formats = {"idx"};
    if (arguments.empty() || arguments.front() == "--help" || arguments.front() == "-h") {
        fmt::print(
            "trainer pack idx --images F --labels F -o OUT.h5   a pair of IDX files (MNIST's format)\n");
        return arguments.empty() ? static_cast<int>(ExitCode::usage) : 0;
    }
    if (arguments.front() == "idx")
        return pack_idx_command(Arguments(arguments.begin() + 1, arguments.end()));
    const std::string near = nearest(arguments.front(), formats);
    throw UsageError("trainer pack knows no format " + arguments.front(),
                     near.empty() ? "there is idx" : "did you mean " + near + "?");
}

}  // namespace tutti
