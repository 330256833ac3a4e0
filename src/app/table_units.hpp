#pragma once
// In what units the tables of reports print.

namespace tutti {

/// So many milliseconds are a second.
inline constexpr double ms = 1e3;

}  // namespace tutti
