#pragma once
// The scores of all ranks, on every rank.

#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/train/ranking_metrics.hpp"

namespace tutti {

/// What a rank has computed, in any order.
struct ClassScores {
    std::vector<double> negative, positive;  ///< of class 0, of class 1
};

/// Collective, and the same on every rank. Each has 8 B per sample of all ranks afterwards, and twice that
/// while they arrive.
RankedScores gather_scores(Communicator& communicator, const ClassScores& mine);

}  // namespace tutti
