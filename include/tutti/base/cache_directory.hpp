#pragma once
// Where things are kept that can be made again.

#include <filesystem>

namespace tutti {

/// $TUTTI_CACHE, else $XDG_CACHE_HOME/tutti (XDG Base Directory Specification), else $HOME/.cache/tutti, else
/// tutti-UID, a user's own, in the folder for temporaries, /tmp where TMPDIR is none. It need not exist.
std::filesystem::path cache_directory();

}  // namespace tutti
