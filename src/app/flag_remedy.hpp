#pragma once
// What a flag that no command has may mean: people bring flags of other trainers, and write keys as flags.

#include <string>

namespace tutti {

/// What to write for `flag` ("--warmup", "-a"), which is no option of `command` ("trainer train"), a command
/// that takes key=value: "write schedule.warmup_epochs=5", or what else to do. value: the word behind it, or
/// an empty text; it is repeated where the key takes it. Empty: nothing is known of such a flag. Pure.
std::string flag_remedy(const std::string& command, const std::string& flag, const std::string& value);

}  // namespace tutti
