#include "output_file.hpp"

#include <filesystem>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti {
namespace {

[[noreturn]] void refuse(const std::string& output, const std::string& what) {
    throw UsageError("-o " + output + " would overwrite " + what,
                     "give another name, or delete that file first");
}

}  // namespace

void refuse_to_overwrite(const std::string& output) {
    if (is_checkpoint(output)) refuse(output, "the checkpoint of a run");
    if (is_dataset_file(output)) refuse(output, "a data set");
}

void refuse_other_than_dataset(const std::string& output) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(output, error)) return;  // which the writer judges
    if (is_checkpoint(output)) refuse(output, "the checkpoint of a run");
    const bool empty = std::filesystem::file_size(output, error) == 0 && !error;
    if (!empty && !is_dataset_file(output)) refuse(output, output + ", which is no data set");
}

}  // namespace tutti
