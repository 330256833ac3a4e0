#pragma once
// Where the relative paths of a run's config lead from.

#include <string>
#include <vector>

#include "tutti/base/config.hpp"

namespace tutti {

/// The folder that a run was started in, which provenance.json in its directory says. path: the directory, or
/// one of its files, config.yaml or a checkpoint. Empty where nothing says it.
std::string start_folder_of_run(const std::string& path);

/// `path` from `folder`, where it is there; else as it is, from the current directory.
std::string path_from(const std::string& folder, const std::string& path);

/// Whether one of the settings of a command line is data.`key`.
bool is_overridden(const std::vector<std::string>& overrides, const std::string& key);

/// Relative paths of data that the run's config names, and not one of `overrides`, lead from `folder`, where
/// they are there; else they stay, from the current directory.
void find_data_of_run(DataConfig& data, const std::string& folder, const std::vector<std::string>& overrides);

/// Throws DataError with what can be done where a relative one of `files`, which find_data_of_run() has not
/// found, is not in the current directory either.
void require_data_of_run(const std::vector<std::string>& files, const std::string& folder,
                         const std::string& remedy);

}  // namespace tutti
