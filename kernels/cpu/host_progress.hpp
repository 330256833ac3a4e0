#pragma once
// What wants to go on beside the computation (transfers, which only move within calls) gets its turn between
// the parts of long operations.

#include <functional>

namespace tutti {

/// Of the calling thread, which drives the device; threads of a team never poll. Empty: nobody.
void set_host_progress(std::function<void()> poll);

/// Called between parts of operations: most take 0.05 to 5 ms on one core, the weight gradient of a large
/// convolution, which is not cut, some tens. Polls when the last poll is half a millisecond ago. Throws what
/// the poll throws; inside a parallel region that waits for the first call behind it.
void offer_progress();

}  // namespace tutti
