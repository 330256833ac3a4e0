#pragma once
// Ranks that end together when a signal asks one of them to.

#include <string>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// The signal that a rank was sent (StopSignal), the same on all; 0: none was. Collective.
int stop_signal_of_any(Communicator& communicator);

/// Throws AgreedError (exit 1) on every rank when one was sent a signal: "stopped by signal 15 while PHASE;
/// no file was written". Collective.
void end_if_stopped(Communicator& communicator, const std::string& phase);

}  // namespace tutti
