#pragma once
// The update that ended a run because its loss or gradient was not finite: what one needs to make it again.

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/model/loss.hpp"

namespace tutti {

/// The weights are beside it in the file (Checkpoint), as they were before the update.
struct FailedStep {
    std::int64_t step = 0;            ///< its number: finished updates + 1
    std::int64_t epoch = 0;           ///< from 0
    std::int64_t begin = 0, end = 0;  ///< positions [begin, end) of the epoch's order: the global batch
    std::int64_t samples = 0;         ///< of data.train, from whose number the order follows
    std::vector<LossSums> ranks;      ///< what each rank had, by rank
    double gradient_norm = 0;         ///< of the summed gradient; 0 where nobody asked for it
};

/// One line of JSON; what is not finite is text ("nan", "inf", "-inf").
std::string to_json(const FailedStep& failed);
/// Throws DataError that names `source`.
FailedStep parse_failed_step(const std::string& json, const std::string& source);

}  // namespace tutti
