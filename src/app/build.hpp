#pragma once
// Which build of this program is it?

#include <string>

namespace tutti {

struct Build {
    std::string version;
    std::string commit;  ///< its whole hash, with a + where files were changed after it; or "unknown"
};

/// "tutti 1.0.0 (commit)"
std::string to_string(const Build& build);

/// Whether these are known to be different programs: versions, or commits that both know and that nobody
/// changed.
bool differ(const Build& one, const Build& other);

}  // namespace tutti
