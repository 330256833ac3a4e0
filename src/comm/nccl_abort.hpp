#pragma once
// Private to comm: the end of NCCL communicators whose peers do not answer any more.

#include <functional>
#include <memory>
#include <vector>

#include "nccl_api.hpp"

namespace tutti {

/// Aborts all of them. Each in a thread of its own: the abort of one may wait for a kernel that waits for
/// another one's. True when all have ended within `patience` seconds; what has not goes on in its thread,
/// which keeps `api`, and whatever it holds on the device is lost until the process ends. slow: called once,
/// by the caller's thread, when they take longer than a moment.
bool abort_within(const std::shared_ptr<NcclApi>& api, const std::vector<NcclComm>& communicators,
                  double patience, const std::function<void()>& slow);

}  // namespace tutti
