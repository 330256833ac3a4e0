#pragma once
// Does the network add correctly, and how fast?

#include "facts.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti::doctor {

/// Ten random floats per rank against their exact sums, then 64 MB (decimal) of whole numbers, whose sums are
/// exact in f32. The error that is allowed is the bound of a sum of R addends in any order: (R − 1) · 2⁻²⁴ ·
/// Σ|x|, doubled for the second order (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 4.2).
/// Collective.
AllReduceFacts check_all_reduce(Communicator& world);

}  // namespace tutti::doctor
