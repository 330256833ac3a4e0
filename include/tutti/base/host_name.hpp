#pragma once
// What this machine calls itself.

#include <string>

namespace tutti {

/// gethostname(2), "unknown" where it fails.
std::string host_name();

}  // namespace tutti
