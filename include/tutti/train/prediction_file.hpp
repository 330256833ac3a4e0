#pragma once
// Files of predictions: one row per sample, in the order of the data set; HDF5 or CSV.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/dtype.hpp"
#include "tutti/base/shape.hpp"

namespace tutti {

/// The label of a sample of which none is known.
inline constexpr std::int64_t unknown_label = -1;

/// Of a place that a model tells: degrees, and where the true place is known kilometres from there to it. NaN
/// where the picture shows no earth, or the sample has no place.
inline constexpr std::array<const char*, 3> earth_columns{"latitude", "longitude", "error_km"};

/// What the rows of a file hold besides label and prediction.
struct PredictionFormat {
    std::int64_t samples = 0;    ///< N, rows of the finished file
    DType dtype = DType::f32;    ///< of logits, outputs and embeddings: f32 or f64
    std::int64_t logits = 0;     ///< K columns; 0: none
    std::int64_t embedding = 0;  ///< E columns; 0: none
    /// Of a model for regression, or a locator, or 0: K columns of outputs, in place of label, prediction and
    /// logits.
    std::int64_t outputs = 0;
    std::int64_t targets = 0;  ///< with outputs: M columns of what is known of them; 0: none is
    std::vector<std::string> target_names = {};  ///< M, or none: they are numbered from 0
    std::vector<std::string> output_names = {};  ///< K, or none: they are those of the targets
    const std::vector<std::string>& names_of_outputs() const {
        return output_names.empty() ? target_names : output_names;
    }
    /// With outputs that are places: how many of earth_columns, f64; 0: it is not known where on the earth
    /// they are.
    std::int64_t earth = 0;
    bool has_paths = false;                     ///< where each sample comes from is known
    std::vector<std::string> class_names = {};  ///< of labels and predictions, or none
};

/// Where the numbers come from; kept in HDF5 files.
struct PredictionOrigin {
    std::string weights;         ///< path of the checkpoint
    std::string weights_sha256;  ///< model_sha256
    std::string data;            ///< names of the data files
    std::string config;          ///< resolved YAML
};

/// The next n rows: [n] labels (true ones, or unknown_label) and predictions (argmax), [n, K] logits, [n, E]
/// embeddings, [n, K] outputs, [n, M] targets in f32, [n, E] earth in f64, row-major; [n] paths in UTF-8.
/// What the format does not have is empty.
struct PredictionRows {
    std::size_t count = 0;
    std::span<const std::int64_t> labels, predictions;
    std::span<const std::byte> logits, embeddings, outputs, targets, earth;
    std::span<const std::string> paths;
};

/// Used by rank 0. Rows are appended in order to a temporary file beside the target; commit() gives it its
/// name. Destroyed before, it leaves no file, and what the target held before. All functions throw RunError
/// that names the file and the cause.
class PredictionWriter {
  public:
    virtual ~PredictionWriter() = default;
    virtual void append(const PredictionRows& rows) = 0;
    /// All N rows must be there.
    virtual void commit() = 0;
};

/// By the ending of `path`: .h5 and .hdf5, or .csv. Throws UsageError for another one.
///   HDF5: data sets /labels i64[N], /predictions i64[N], /logits [N, K], /embeddings [N, E], each with the
///         attribute sha256 of its bytes (row-major, little-endian); root attributes
///         tutti_predictions_version (1), weights, weights_sha256, data, config, and class_name_0, … where
///         classes have names. Of regression /outputs [N, K] and /targets f32[N, M], and no labels,
///         predictions, logits; root attributes target_name_0, … where targets have names, and output_name_0,
///         … where outputs have others. /earth f64[N, E], with earth_name_0, …. /paths, texts of variable
///         length [N]; its sha256 is of all texts, a zero byte behind each.
///   CSV:  header index,label,prediction,logit_0,…,embedding_0,…, of regression index,target_NAME,…,
///         output_NAME,…,latitude,longitude,error_km,embedding_0,…; path behind index; numbers in the fewest
///         digits that give the same bits back.
std::unique_ptr<PredictionWriter> make_prediction_writer(const std::string& path,
                                                         const PredictionFormat& format,
                                                         const PredictionOrigin& origin);
/// Throws UsageError unless make_prediction_writer knows the ending of `path`.
void check_prediction_path(const std::string& path);
/// Of a path that check_prediction_path takes: CSV, not HDF5.
bool writes_csv(const std::string& path);

/// True for an HDF5 file that says that it holds predictions, and for CSV that begins as they do; false for
/// anything else.
bool is_prediction_file(const std::string& path);

struct PredictionColumn {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::string sha256;
    bool text = false;  ///< of texts, and of no dtype
};
struct PredictionSummary {
    PredictionOrigin origin;
    std::int64_t samples = 0, correct = 0;  ///< correct: label = prediction
    bool labelled = false;                  ///< some sample has a known label
    bool regression = false;                ///< it has outputs; no sample is correct
    std::vector<PredictionColumn> columns;  ///< in the order of the file
    std::string sha256;                     ///< one hash of all columns, by name
};
/// Reads an HDF5 file of predictions and checks its hashes. Throws DataError: not one, cut off, damaged.
PredictionSummary read_prediction_summary(const std::string& path);

}  // namespace tutti
