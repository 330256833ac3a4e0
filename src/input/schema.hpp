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
inline constexpr const char* mean_attribute = "mean";
inline constexpr const char* std_attribute = "std";
inline constexpr const char* source_attribute = "source";
inline constexpr const char* samples_dataset = "/samples";
inline constexpr const char* labels_dataset = "/labels";
inline constexpr const char* targets_dataset = "/targets";

inline constexpr std::string_view name = "samples";
inline constexpr std::int64_t version = 1;

/// What in `info` the schema does not allow; empty when all is well.
std::string violation(const DatasetInfo& info);

/// "label 11, but the file says 10 classes (0..9)".
std::string label_outside(std::int64_t label, std::int64_t classes);

/// "the value nan as target 1 (y)".
std::string target_not_finite(const DatasetInfo& info, std::int64_t target, float value);

/// What to do about a file that is not of the schema. It does not name the file, which may be somebody's
/// weights.
std::string pack_again();

/// Throws DataError "PATH: PROBLEM; pack it again with …".
[[noreturn]] void fail(const std::string& path, const std::string& problem);

}  // namespace tutti::schema
