#include "output_file.hpp"

#include <filesystem>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/prediction_file.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

/// is_own: whether a file is of the command's own kind, `own`.
void refuse_other_than(bool (*is_own)(const std::string& path), const std::string& own,
                       const std::string& output) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(output, error) || std::filesystem::file_size(output, error) == 0)
        return;
    if (is_own(output)) return;
    const std::string what = is_checkpoint(output)        ? "the checkpoint of a run"
                             : is_dataset_file(output)    ? "a data set"
                             : is_prediction_file(output) ? "predictions"
                                                          : output + ", which is no " + own;
    throw UsageError("-o " + output + " would overwrite " + what,
                     "give another name, or delete that file first");
}

}  // namespace

void refuse_other_than_dataset(const std::string& output) {
    refuse_other_than(is_dataset_file, "data set", output);
}
void refuse_other_than_predictions(const std::string& output) {
    refuse_other_than(is_prediction_file, "file of predictions", output);
}
void refuse_other_than_weights(const std::string& output) {
    refuse_other_than(is_exported_file,
                      "file of exported weights, or of an earlier version, which did not mark them", output);
}

}  // namespace tutti
