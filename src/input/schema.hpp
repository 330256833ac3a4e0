#pragma once
// The schema of data sets in HDF5 (data/README.md), as far as reader and writer share it.

#include <string>
#include <string_view>

#include "tutti/input/dataset.hpp"

namespace tutti::schema {

inline constexpr const char* name_attribute = "tutti_schema";
inline constexpr const char* version_attribute = "tutti_schema_version";
inline constexpr const char* classes_attribute = "classes";
inline constexpr const char* class_names_attribute = "class_names";
inline constexpr const char* target_names_attribute = "target_names";
inline constexpr const char* target_kind_attribute = "target_kind";
inline constexpr const char* feature_names_attribute = "feature_names";
inline constexpr const char* mean_attribute = "mean";
inline constexpr const char* std_attribute = "std";
inline constexpr const char* frames_attribute = "frames";
inline constexpr const char* source_attribute = "source";
inline constexpr const char* samples_dataset = "/samples";
inline constexpr const char* labels_dataset = "/labels";
inline constexpr const char* targets_dataset = "/targets";
inline constexpr const char* paths_dataset = "/paths";
inline constexpr const char* placements_dataset = "/placements";

inline constexpr std::string_view name = "samples";
inline constexpr std::int64_t version = 1;

/// What the schema does not allow, and what to do about it in a file. Both are empty when all is well.
struct Violation {
    std::string problem, remedy;
    explicit operator bool() const { return !problem.empty(); }
};
Violation violation(const DatasetInfo& info);

/// "label 11, but the file says 10 classes (0..9)".
std::string label_outside(std::int64_t label, std::int64_t classes);

/// "the value nan as target 1 (y)".
std::string target_not_finite(const DatasetInfo& info, std::int64_t target, float value);

/// What to do about a file that is not of the schema. It does not name the file, which may be somebody's
/// weights.
std::string pack_again();
/// The same for one with /targets.
std::string pack_targets_again();

/// Throws DataError "PATH: PROBLEM; REMEDY".
[[noreturn]] void fail(const std::string& path, const std::string& problem,
                       const std::string& remedy = pack_again());

}  // namespace tutti::schema
