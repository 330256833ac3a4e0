#pragma once
// "did you mean …?" for keys and flags.

#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// The candidate with the smallest edit distance (Damerau–Levenshtein, optimal string alignment) to `word`,
/// or an empty string when none is near: more than max(2, a third of the word's length) edits, of a word of
/// up to three letters one. Capitals count as small letters, and _ as -.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// The same of the dotted `names` and of their beginnings up to a dot: "layer1", "layer1.0", …,
/// "layer1.0.conv1.weight".
std::string nearest_part(std::string_view word, std::span<const std::string> names);

/// Whether the words differ in capitals, and in _ and -, at most.
bool same_but_for_spelling(std::string_view a, std::string_view b);

/// The same, but where `word` is what others call one of `candidates` (gpu, float32), that one.
std::string nearest_in_meaning(std::string_view word, std::span<const std::string> candidates);

/// The key of the config that other trainers call `name` (num_workers, --grad-clip without its dashes), or an
/// empty string.
std::string key_called(std::string_view name);

}  // namespace tutti
