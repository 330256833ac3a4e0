#pragma once
// The first maximum of a row, as a reduction; a NaN is the greatest.

#include <limits>

#include "../common/softmax_math.hpp"
#include "reduce.hpp"

namespace tutti::cuda {

/// A logit that may be its row's first maximum.
struct Candidate {
    float logit;
    int place;
};
/// What every candidate comes before.
inline constexpr Candidate no_candidate{-std::numeric_limits<float>::infinity(),
                                        std::numeric_limits<int>::max()};

struct FirstMaximum {
    __device__ Candidate operator()(const Candidate& a, const Candidate& b) const {
        if (exceeds(a.logit, b.logit)) return a;
        if (exceeds(b.logit, a.logit)) return b;
        return a.place < b.place ? a : b;
    }
};
__device__ inline Candidate from_lane_xor(const Candidate& value, int distance) {
    return {__shfl_xor_sync(whole_warp, value.logit, distance),
            __shfl_xor_sync(whole_warp, value.place, distance)};
}

}  // namespace tutti::cuda
