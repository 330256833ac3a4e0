#pragma once
// Ranks that were started by hand or by a wrapper, or whose hosts hold copies of the data, may differ where
// they must not: they would wait for each other for ever, or add up what does not belong together.

#include <string>

#include "tutti/base/config.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/label_summary.hpp"

namespace tutti {

/// Every rank has rank 0's settings, but where its data lie, data.workers, data.prefetch and run.log_level,
/// which each may have of its own. Collective; throws AgreedError (usage), which lists what differs.
void require_same_settings(Communicator& world, const Config& config);

/// For deterministic mode: every rank computes on what rank 0 does (SelectedDevice::basis_of_bits).
/// Collective; throws AgreedError (usage), which names both.
void require_same_gpus(Communicator& world, const std::string& basis_of_bits);

/// by_settings: samples that are made from what require_same_settings() has compared are not read.
enum class SameLabels { compared, by_settings };

/// Every rank's data set has the description, the labels and the targets of rank 0's; reads all labels, and
/// so finds one that is outside the classes before the first step. Gives what they tell; an empty fingerprint
/// where they are not read. Collective; throws AgreedError (data).
LabelSummary require_same_data(Communicator& world, const Dataset& data,
                               SameLabels how = SameLabels::compared);

}  // namespace tutti
