#pragma once
// At which sizes to measure all-reduces, so that a cost model is right about them.

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/comm/cost_model.hpp"

namespace tutti {

/// What to measure besides `samples` where fit_cost(samples) is wrong by more than a tenth: the sizes half
/// way, on a scale of ratios, between the size of the largest |residual| and its neighbours. A piece of a
/// model needs three sizes of its own, so a jump between sizes that are far apart (the burst that a token
/// bucket lets pass, another protocol of the library) is seen only with more of them beside it. At most two
/// sizes, in bytes, ascending, whole elements, none that was measured; none that takes more than most_seconds
/// by the model; none where neighbours are nearer than a factor of 1.5. Pure.
std::vector<std::uint64_t> sizes_to_add(std::span<const CostSample> samples, std::uint64_t element_bytes,
                                        double most_seconds);

}  // namespace tutti
