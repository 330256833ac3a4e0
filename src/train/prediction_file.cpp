#include "tutti/train/prediction_file.hpp"

#include <algorithm>
#include <filesystem>

#include "prediction_writers.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

bool writes_csv(const std::string& path) {
    return std::filesystem::path(path).extension() == ".csv";
}

void check_prediction_path(const std::string& path) {
    const auto ending = std::filesystem::path(path).extension();
    if (ending != ".h5" && ending != ".hdf5" && !writes_csv(path))
        throw UsageError("predictions cannot be written to " + path, "end its name with .h5 or .csv");
    std::error_code ignored;  // what cannot be looked at cannot be written, which says why
    if (std::filesystem::is_directory(path, ignored))
        throw UsageError(path + " is a directory", "name a file in it");
}

std::unique_ptr<PredictionWriter> make_prediction_writer(const std::string& path,
                                                         const PredictionFormat& format,
                                                         const PredictionOrigin& origin) {
    check_prediction_path(path);
    if (writes_csv(path)) return make_csv_prediction_writer(path, format);
    return make_hdf5_prediction_writer(path, format, origin);
}

bool is_prediction_file(const std::string& path) {
    return is_csv_prediction_file(path) || is_hdf5_prediction_file(path);
}

void throw_unwritable_predictions(const std::string& path, const std::string& cause) {
    throw RunError("cannot write the predictions " + path + ": " + cause,
                   "check the free space, quota and permissions there, or give another -o");
}

}  // namespace tutti
