#pragma once
// Running statistics of batch norms: Ops::track_batch_norms, in f32.

#include <span>

#include "stream.hpp"
#include "tutti/device/batch_norm_op.hpp"

namespace tutti::cuda {

/// 64 layers at a launch, a block each: what they read is little, and each waits for memory in turn.
void batch_norm_track(std::span<const BatchNormTracking> layers, Stream stream);

}  // namespace tutti::cuda
