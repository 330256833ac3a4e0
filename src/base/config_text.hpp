#pragma once
// What a config is read from, before it is YAML.

#include <string>
#include <string_view>

namespace tutti::config {

/// Throws UsageError for what is not text in UTF-8, of which a parser would read a part or nothing: the byte
/// order marks of UTF-16 and UTF-32, and NUL bytes. `source` names it.
void require_text(std::string_view text, const std::string& source);

}  // namespace tutti::config
