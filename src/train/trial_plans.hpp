#pragma once
// Which plans `distributed.bucket_policy: auto` tries in real steps, and under which schedule. Pure.

#include <vector>

#include "bucket_profile.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {

/// What the cost model knows when the list is made.
struct TrialContext {
    std::span<const ParameterSlice> parameters;
    const std::vector<bool>& layer_ends;
    const BucketTiming& timing;
    std::size_t first_bucket = 0;  ///< bytes of ddp's first bucket, at most
    /// Not needed where `schedules` is within.
    const AcrossTiming* across = nullptr;
    double backward_end = 0;  ///< of a backward that nothing disturbs
};

/// The plan of cost_model, for each schedule that is to be tried; the one of `first` in front.
std::vector<BucketTrial> plans_by_cost(const TrialContext& context, const SchedulePlans& plans,
                                       ScheduleTrials schedules);

/// Those, and others that the cost model may have got wrong; no two that send alike. Under one schedule: a
/// single bucket, one per layer, and the two sizes of ddp that the cost model thinks best. Under both: of
/// each one per layer and the best size of ddp; a single bucket within steps, because across steps the first
/// layer would wait for all of it. Where plans have buckets in pieces, the first of these also in whole
/// transfers: what the model does not know of pieces (polls, the processor's part) their measurement tells.
std::vector<BucketTrial> plans_to_try(const TrialContext& context, const SchedulePlans& plans,
                                      ScheduleTrials schedules);

}  // namespace tutti
