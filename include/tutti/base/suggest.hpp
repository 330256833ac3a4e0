#pragma once
// "did you mean …?" for keys and flags.

#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// The candidate with the smallest edit distance (Damerau–Levenshtein, optimal string alignment) to `word`,
/// or an empty string when none is near: more than max(2, a third of the word's length) edits. Capitals count
/// as small letters, and _ as -.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// The same, but where `word` is what others call one of `candidates` (gpu, float32), that one.
std::string nearest_in_meaning(std::string_view word, std::span<const std::string> candidates);

}  // namespace tutti
