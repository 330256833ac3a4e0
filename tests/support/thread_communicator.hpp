#pragma once
// Ranks as threads of one process: for tests of what runs on several ranks, clean under the thread sanitizer.

#include <functional>

#include "tutti/comm/communicator.hpp"

namespace tutti::test {

/// Runs `body` on `ranks` threads, each with its own communicator (backend "threads"), and joins them.
/// Reductions add in rank order. If ranks throw, the first error that was thrown is thrown again here; ranks
/// that wait for a peer that has failed, has ended, or does not come within `timeout` seconds throw
/// PeerError. Collectives that do not match (kind, count, dtype, op, root) throw RunError that names both.
void run_on_threads(int ranks, const std::function<void(Communicator&)>& body, double timeout = 60);

}  // namespace tutti::test
