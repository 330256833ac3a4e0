#pragma once
// What processes say on a standard error that they share.

#include <string_view>

namespace tutti {

/// One write(2) of all of it, so that lines of ranks on one terminal or in one file do not mix: give it whole
/// lines. Any thread. What cannot be written is lost.
void write_standard_error(std::string_view text) noexcept;

}  // namespace tutti
