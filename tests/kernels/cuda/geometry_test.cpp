#include "geometry.hpp"

#include <gtest/gtest.h>

namespace tutti::cuda {
namespace {

/// Against NVIDIA's calculator (cuda_occupancy.h of CUDA 13), for compute capability 9.0.
TEST(RegistersFit, says_what_a_multiprocessor_can_hold) {
    struct Case {
        int registers, warps;
        bool fits;
    };
    for (const Case& c : {Case{144, 12, true}, Case{144, 13, false}, Case{128, 13, true}, Case{128, 16, true},
                          Case{129, 16, false}, Case{168, 12, true}, Case{169, 12, false}, Case{255, 8, true},
                          Case{255, 9, false}, Case{96, 5, true}, Case{64, 32, true}, Case{65, 32, false}})
        EXPECT_EQ(registers_fit(c.registers, 32 * c.warps), c.fits)
            << c.registers << " registers, " << c.warps << " warps";
    EXPECT_EQ(registers_fit(144, 385), false) << "a part of a warp has registers as a whole one";
}

}  // namespace
}  // namespace tutti::cuda
