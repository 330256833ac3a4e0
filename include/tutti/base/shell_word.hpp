#pragma once
// Names in commands that messages suggest: what is pasted must be one word to the shell.

#include <string>
#include <string_view>

namespace tutti {

/// `text` as one word of a POSIX shell: unchanged where it is not empty and holds only letters, digits and
/// _./:=@%+,- ; else between single quotes, where each ' is written '\'' (POSIX.1-2017, Shell Command
/// Language, 2.2.2). Pure.
std::string shell_word(std::string_view text);

}  // namespace tutti
