#pragma once
// Does the network add correctly, and how fast?

#include "facts.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/device/device.hpp"

namespace tutti::doctor {

/// Ten random floats per rank against their exact sums, then 64 MB (decimal) of whole numbers, whose sums are
/// exact in f32. The error that is allowed is the bound of a sum of R addends in any order: (R − 1) · 2⁻²⁴ ·
/// Σ|x|, doubled for the second order (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 4.2).
/// Of a device's memory the second of two large ones counts: the first makes connections. `control`: the same
/// ranks' host memory. Collective.
AllReduceFacts check_all_reduce(Communicator& communicator, Communicator& control, Device* device = nullptr);

}  // namespace tutti::doctor
