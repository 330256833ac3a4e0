#pragma once
// `trainer replay` as text and as JSON.

#include <string>

#include "tutti/train/failed_step_replay.hpp"

namespace tutti {

struct ReplayReport {
    std::string file, data, device;
    FailedStep recorded;
    FailedStepReplay now;
};

/// One object: file, data, device, step, epoch (from 0), begin, end, world_size, reproduced, ranks [{rank,
/// recorded_loss, loss}] (means; null: no samples), first {where, name, kind, layer, count, of, rank} or
/// null, samples [{rank, position, index, loss}], gradient_norm. What is not finite is
/// text: "nan", "inf".
std::string to_json(const ReplayReport& report);
std::string to_text(const ReplayReport& report);

}  // namespace tutti
