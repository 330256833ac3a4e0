#pragma once
// A recorded update again, on one rank: which samples, layer or gradient are the first that are not finite.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/device/device.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/failed_step.hpp"

namespace tutti {

/// What is not finite, earliest in the order of the computation.
struct NonFinite {
    enum class Where { parameter, samples, output, loss, gradient, gradient_sum };
    Where where = Where::loss;
    std::string name;              ///< of the parameter or layer; a layer may have none
    std::string kind;              ///< of the layer
    std::int64_t layer = -1;       ///< its number, from 0 (Graph::report)
    std::int64_t count = 0;        ///< values that are not finite
    std::int64_t of = 0;           ///< values in all
    std::optional<int> rank = {};  ///< the recorded rank; none: of no single one
};

/// A sample whose own loss is not finite.
struct NonFiniteSample {
    int rank = 0;
    std::int64_t position = 0;  ///< in the epoch's order
    std::int64_t index = 0;     ///< in data.train
    double loss = 0;
};

struct FailedStepReplay {
    std::vector<LossSums> ranks;  ///< as in FailedStep, now
    std::optional<NonFinite> first;
    std::vector<NonFiniteSample> samples;
    double gradient_norm = 0;  ///< where all losses are finite
};

/// Forward and backward of each recorded rank's samples in turn, in the batches that it had (with
/// distributed.sync_batch_norm of all ranks' samples together, so that their statistics are those of the
/// run), with the recorded weights and random numbers; backward only while all losses are finite. No two
/// layers are fused, and all outputs are kept, so that each can be looked at. The config is the recorded one,
/// but for what does not change which samples a rank had. Throws DataError: data of another number of
/// samples, weights that do not fit; UsageError: other settings of the order of samples. `source` names the
/// file.
FailedStepReplay replay_failed_step(const Checkpoint& checkpoint, const FailedStep& failed,
                                    const Config& config, Device& device, const Dataset& train,
                                    const std::string& source);

}  // namespace tutti
