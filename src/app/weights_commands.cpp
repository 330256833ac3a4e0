// trainer export and trainer import: weights between runs and other programs.

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "command_line.hpp"
#include "output_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/report_file.hpp"
#include "tutti/base/units.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/weights_file.hpp"
#include "weights_in_run.hpp"

namespace tutti {
namespace {

int convert(const char* description, const char* name, const char* what, bool takes_best,
            const Arguments& arguments) {
    OptionParser parser(description, name);
    std::string input, output;
    bool best = false;
    parser.add_path("path", input, what).required();
    parser.add_path("-o,--output", output, "file to write: .safetensors or .h5").required();
    if (takes_best) parser.add_flag("--best", best, best_help);
    if (!parse_arguments(parser, arguments)) return 0;
    output = prepare_output(output);
    with_weights_in(input, best, [&](const std::string& source) {
        std::error_code missing;  // a file that does not exist yet is no source
        if (std::filesystem::equivalent(source, output, missing))
            throw UsageError("-o " + output + " would overwrite " + source, "give another name");
        refuse_other_than_weights(output);
        std::vector<NamedTensor> tensors = weights_to_evaluate(source);
        const bool averaged = are_averaged(source);
        const std::size_t count = tensors.size();
        make_folder_of(output);
        write_weights(output, std::move(tensors), read_trained_on(source));
        fmt::print("{}: {} of {}{}\n", output, counted(count, "tensor"), source,
                   averaged ? averaged_note : "");
    });
    return 0;
}

}  // namespace

int export_command(const Arguments& arguments) {
    return convert(
        "Writes the weights of a run under PyTorch's names, in PyTorch's order of elements: those that eval "
        "and predict use, the moving average where the run keeps one. In Python: "
        "model.load_state_dict(safetensors.torch.load_file(FILE)).",
        "trainer export", "run directory (its latest checkpoint) or checkpoint", true, arguments);
}

int import_command(const Arguments& arguments) {
    return convert(
        "Writes the weights of a file of other programs as HDF5, one data set per name. Training "
        "(model.init_from), eval and predict (-c FILE --checkpoint) also take safetensors as they are.",
        "trainer import", "safetensors or HDF5", false, arguments);
}

}  // namespace tutti
