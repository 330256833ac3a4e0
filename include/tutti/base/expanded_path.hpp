#pragma once
// A path as somebody typed it, where no shell has seen it as a word of its own: in a config, as key=~/x, in
// quotes, or from a variable of a script.

#include <string>

namespace tutti {

/// `path` with the home directory in the place of ~ at its beginning. Throws UsageError, which begins with
/// `name`, the setting or option, for what only a shell would replace (a variable, ~USER/x) and where HOME is
/// not set: nothing is to be written into a folder that is called ~ or $SCRATCH.
std::string expanded_path(const std::string& name, const std::string& path);

/// The same, but a name that a file or folder has stays. Not for settings, which are read again elsewhere.
std::string expanded_option(const std::string& name, const std::string& path);

}  // namespace tutti
