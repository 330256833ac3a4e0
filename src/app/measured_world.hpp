#pragma once
// A buckets.json read back: what other numbers of ranks are predicted from, and what the prediction is held
// to.

#include <optional>
#include <string>
#include <vector>

#include "tutti/train/world_forecast.hpp"

namespace tutti {

/// A plan as it was measured: medians, seconds.
struct MeasuredPlan {
    BenchPlan plan;
    std::string name;
    double step = 0, exposed = 0;
};

struct MeasuredFile {
    std::string path, version, model, all_reduce_path;
    bool compressed = false;            ///< distributed.compress: bf16; older files do not say it
    std::optional<std::string> replay;  ///< as in BucketReport
    std::int64_t samples = 0;           ///< of a rank, per update
    std::int64_t steps = 0;             ///< whose medians the computation is
    std::size_t gradient_bytes = 0;
    double first_bucket_mb = 1;  ///< MiB: of ddp's plans; older files do not say it, and have the default
    double worst_residual = 0;   ///< CostModel's
    int hosts = 0;               ///< 0: the file does not say it
    MeasuredWorld measured;
    std::vector<MeasuredPlan> plans;
};

/// Throws DataError: no such file, not of `trainer bench buckets` or of a version that did not write what is
/// needed here, measured on one rank, or contradicting itself.
MeasuredFile read_measured_world(const std::string& path);

}  // namespace tutti
