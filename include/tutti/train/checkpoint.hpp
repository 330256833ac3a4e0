#pragma once
// The whole state of a run in one HDF5 file, written atomically and checked when read.

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/base/named_tensor.hpp"

namespace tutti {

/// Where a run stands. All counts are global.
struct Progress {
    std::int64_t step = 0;        ///< finished updates
    std::int64_t epoch = 0;       ///< the epoch in progress, from 0
    std::int64_t position = 0;    ///< positions of that epoch consumed (the resume cursor)
    std::int64_t samples = 0;     ///< samples consumed since the beginning of the run
    std::int64_t world_size = 1;  ///< of the run that saved it; for information
    double loss_sum = 0;          ///< of this epoch so far: Σ loss, Σ weight, correct
    double loss_weight = 0;
    std::int64_t correct = 0;
    double best_metric = 0;  ///< of checkpoint.best
    bool has_best = false;
    std::int64_t best_step = -1;  ///< the checkpoint that holds it
    std::int64_t skipped = 0;     ///< updates left out by nan_policy: skip; they consumed their samples
    double stop_metric = 0;       ///< best value of early_stopping.metric
    bool has_stop_metric = false;
    std::int64_t stale_evals = 0;  ///< evaluations since it improved
    std::int64_t unreadable = 0;   ///< samples of this epoch so far that on_error: skip went without
};

/// Groups of the file: model/NAME (parameters and buffers under PyTorch's names, dots kept),
/// optimizer/KIND/NAME, ema/NAME (the moving average of the parameters, where the run keeps one).
struct Checkpoint {
    Progress progress;
    std::string config;  ///< resolved YAML
    std::vector<NamedTensor> model;
    std::vector<NamedTensor> optimizer;  ///< name: "momentum_buffer/fc1.weight"
    std::vector<NamedTensor> ema;        ///< names as in `model`; empty without train.ema
    std::string bucket_plan;             ///< that measurements chose (JSON), or empty
    std::string failed_step;             ///< the update that ended the run (JSON of FailedStep), or empty
    std::string last_eval;               ///< the last "eval" row of metrics.jsonl (JSON), or empty
    std::string data_fingerprint;        ///< of data.train (input/data_fingerprint.hpp), or empty
    std::string normalisation;           ///< of its samples (JSON of train/normalisation.hpp), or empty
    std::string training_data;           ///< what data.train are (JSON of train/training_data.hpp), or empty
};

/// Writes to a temporary file in the same directory (PATH.HOST-PID.tmp), syncs, renames, syncs the directory:
/// `path` is complete or unchanged. Data go out in pieces of at most 4 MiB (the HDF5 library's lock is
/// global). The root attribute `sha256` covers everything: progress, config, last_eval, and of all tensors
/// name, type, shape and bytes; `model_sha256` covers the model alone. Throws RunError naming the file and
/// the cause (disk full, permission), or the tensor that cannot be stored (a name twice, bytes that do not
/// fit its shape).
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// Throws DataError: missing, truncated, not a checkpoint, hash mismatch.
Checkpoint load_checkpoint(const std::string& path);

/// True for an HDF5 file that says it is a checkpoint; false for anything else, also for what cannot be read.
bool is_checkpoint(const std::string& path);

/// Only progress, config, last_eval, the other texts and the tensors' names, types and shapes (bytes empty);
/// no hash check.
Checkpoint peek_checkpoint(const std::string& path);

/// One SHA-256 of all model tensors in name order (name, dtype, shape, bytes): `trainer inspect --sha256`.
std::string model_sha256(const Checkpoint& checkpoint);

}  // namespace tutti
