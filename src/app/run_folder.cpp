#include "run_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/json_input.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// What cannot be looked at, as in a folder of another user that must not be searched, is said by whoever
/// opens it.
fs::file_type type_of(const fs::path& path) {
    std::error_code none;
    return fs::status(path, none).type();
}

}  // namespace

std::string start_folder_of_run(const std::string& path) {
    std::error_code none;
    const fs::path place = fs::absolute(path, none);
    if (path.empty() || none) return {};
    // RUN_DIR, RUN_DIR/config.yaml, RUN_DIR/checkpoints/step-….h5
    for (const fs::path& directory : {place, place.parent_path(), place.parent_path().parent_path()}) {
        const fs::path record = directory / "provenance.json";
        if (type_of(record) != fs::file_type::regular) continue;
        const auto provenance = json_or_discarded<nlohmann::json>(file::content_or_nothing(record.string()));
        if (!provenance.is_object()) return {};
        const auto folder = provenance.find("folder");
        return folder != provenance.end() && folder->is_string() ? folder->get<std::string>() : std::string();
    }
    return {};
}

std::string path_from(const std::string& folder, const std::string& path) {
    // An absolute one stays what it is behind the folder.
    const fs::path there = fs::path(folder) / path;
    const fs::file_type type = type_of(there);
    return type == fs::file_type::none || type == fs::file_type::not_found ? path : there.string();
}

bool is_overridden(const std::vector<std::string>& overrides, const std::string& key) {
    return std::ranges::any_of(overrides, [&](const std::string& setting) {
        return setting.starts_with("data." + key + "=") || setting.starts_with("data=");
    });
}

void find_data_of_run(DataConfig& data, const std::string& folder,
                      const std::vector<std::string>& overrides) {
    std::error_code none;
    if (folder.empty() || fs::equivalent(folder, ".", none)) return;
    const auto is_of_run = [&](const std::string& key) { return !is_overridden(overrides, key); };
    const auto find = [&](std::string& file) {
        if (!file.empty()) file = path_from(folder, file);
    };
    if (is_of_run("train")) std::ranges::for_each(data.train, find);
    if (is_of_run("val")) std::ranges::for_each(data.val, find);
    if (is_of_run("latitudes")) find(data.latitudes);
    if (is_of_run("longitudes")) find(data.longitudes);
}

void require_data_of_run(const std::vector<std::string>& files, const std::string& folder,
                         const std::string& remedy) {
    std::error_code none;
    const std::string here = fs::current_path(none).string();
    for (const std::string& file : files)
        if (fs::path(file).is_relative() && type_of(file) == fs::file_type::not_found)
            throw DataError(
                file + ": No such file or directory in " + here +
                    (folder.empty() || folder == here ? std::string()
                                                      : " nor in " + folder + ", where the run was started"),
                remedy);
}

}  // namespace tutti
