#pragma once
// The formats of prediction files.

#include "tutti/train/prediction_file.hpp"

namespace tutti {

inline constexpr const char* predictions_version_name = "tutti_predictions_version";
inline constexpr std::int64_t predictions_version = 1;

bool is_hdf5_prediction_file(const std::string& path);
/// By the first columns of its header.
bool is_csv_prediction_file(const std::string& path);

[[noreturn]] void throw_unwritable_predictions(const std::string& path, const std::string& cause);

std::unique_ptr<PredictionWriter> make_hdf5_prediction_writer(const std::string& path,
                                                              const PredictionFormat& format,
                                                              const PredictionOrigin& origin);
std::unique_ptr<PredictionWriter> make_csv_prediction_writer(const std::string& path,
                                                             const PredictionFormat& format);

}  // namespace tutti
