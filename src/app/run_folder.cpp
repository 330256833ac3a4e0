#include "run_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/base/path_type.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
    return type_of_path(path.string()) != fs::file_type::not_found;
}

}  // namespace

std::string start_folder_of_run(const std::string& path) {
    if (path.empty()) return {};
    // RUN_DIR, RUN_DIR/config.yaml, RUN_DIR/checkpoints/step-….h5
    for (const fs::path& directory :
         {fs::path(path), fs::path(path).parent_path(), fs::path(path).parent_path().parent_path()}) {
        std::ifstream file(directory / "provenance.json");
        if (!file) continue;
        const auto provenance = nlohmann::json::parse(file, nullptr, false);
        if (!provenance.is_object()) return {};
        const auto folder = provenance.find("folder");
        return folder != provenance.end() && folder->is_string() ? folder->get<std::string>() : std::string();
    }
    return {};
}

void find_data_of_run(DataConfig& data, const std::string& folder,
                      const std::vector<std::string>& overrides) {
    std::error_code none;
    if (folder.empty() || fs::equivalent(folder, ".", none)) return;
    const auto is_of_run = [&](const std::string& key) {
        return std::ranges::none_of(overrides, [&](const std::string& setting) {
            return setting.starts_with("data." + key + "=") || setting.starts_with("data=");
        });
    };
    const auto find = [&](std::string& file) {
        // An absolute one stays what it is behind the folder.
        if (const fs::path there = fs::path(folder) / file; !file.empty() && is_there(there))
            file = there.string();
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
        if (fs::path(file).is_relative() && !is_there(file))
            throw DataError(
                file + ": No such file or directory in " + here +
                    (folder.empty() || folder == here ? std::string()
                                                      : " nor in " + folder + ", where the run was started"),
                remedy);
}

}  // namespace tutti
