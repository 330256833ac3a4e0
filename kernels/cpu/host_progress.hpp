#pragma once
// What wants to go on beside the computation (transfers, which only move within calls) gets its turn between
// the parts of long operations.

#include <functional>

namespace tutti {

/// Of the calling thread, which drives the device; threads of a team never poll. Empty: nobody.
void set_host_progress(std::function<void()> poll);

/// Called between parts of operations, some 0.05 to 5 ms long: polls when the last poll is long enough ago
/// for another one to cost less than a hundredth of the time. Throws what the poll throws; inside a parallel
/// region that waits for the first call behind it.
void offer_progress();

}  // namespace tutti
