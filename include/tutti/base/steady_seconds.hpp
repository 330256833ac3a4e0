#pragma once
// The steady clock as a number.

#include <chrono>

namespace tutti {

/// Seconds on this process's steady clock.
inline double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tutti
