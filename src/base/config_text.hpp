#pragma once
// What a config is read from, before it is YAML.

#include <string>
#include <string_view>

namespace tutti::config {

/// Throws UsageError for what is not text in UTF-8, of which a parser would read a part or nothing: the byte
/// order marks of UTF-16 and UTF-32, and NUL bytes. `source` names it.
void require_text(std::string_view text, const std::string& source);

/// Throws UsageError, which names line and column (in characters, from 1), for a byte that is not UTF-8,
/// after what require_text refuses. YAML 1.2 (section 5.2) is UTF-8, UTF-16 or UTF-32.
void require_utf8(std::string_view text, const std::string& source);

}  // namespace tutti::config
