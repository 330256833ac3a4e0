#pragma once
// JSON in files that anybody may have written.

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// How deep lists and objects are within each other. Pure.
std::size_t json_depth(std::string_view text);

/// A JSON library reads documents of any depth, but copies, compares and prints them by recursion, which a
/// deep one ends with the stack. Far more than documents of ours have.
inline constexpr std::size_t deepest_json = 64;

/// What `what` of a JSON library's exception says, without the exception's name, and no more of it than fits
/// a line: parse errors end with all that was read. Pure.
std::string json_problem(std::string_view what);

/// Json, an nlohmann::json or ordered_json, of `text`, or discarded (is_discarded()) where it is none, or
/// deeper than deepest_json. Pure.
template <class Json>
Json json_or_discarded(std::string_view text) {
    if (json_depth(text) > deepest_json) return Json(Json::value_t::discarded);
    return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// Throws DataError where a text that is to be parsed is deeper than deepest_json.
void refuse_deep_json(std::string_view text);

/// The same, but throws DataError, "nested too deep …", for a deep one, and Json's parse_error for no JSON.
template <class Json>
Json parse_json(std::string_view text) {
    refuse_deep_json(text);
    return Json::parse(text);
}

}  // namespace tutti
