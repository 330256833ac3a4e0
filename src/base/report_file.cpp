#include "tutti/base/report_file.hpp"

#include <filesystem>

#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/failed_write.hpp"

namespace tutti {

std::string prepare_report(const std::string& directory, const std::string& name, const std::string& option) {
    try {
        std::filesystem::create_directories(directory);
        const std::string path = (std::filesystem::path(directory) / name).string();
        if (std::filesystem::is_directory(path))
            throw UsageError(path + " is a directory", "give another " + option);
        const file::Temporary probe(path);
        return path;
    } catch (const std::system_error& error) {
        refuse_place(error.code().value(), "cannot write into " + directory + ": " + file::cause(error),
                     "give " + option + " a directory that can be written");
    }
}

void prepare_output(const std::string& path, const std::string& option) {
    namespace fs = std::filesystem;
    const fs::path output(path);
    try {
        if (output.filename().empty() || fs::is_directory(output))
            throw UsageError(option + " " + path + " is a directory", "name a file in it");
        // It would take the place of a device, such as /dev/null, for everybody.
        if (fs::exists(output) && !fs::is_regular_file(output))
            throw UsageError(option + " " + path + " is something else than a file", "give another name");
        // What is missing of the folder is made by who writes the file, which may not come to that.
        fs::path folder = output.parent_path();
        while (!folder.empty() && !fs::exists(folder)) folder = folder.parent_path();
        const file::Temporary probe((folder / output.filename()).string());
        file::remove_left_over(path);
    } catch (const std::system_error& error) {
        if (is_failed_write(error.code().value()))
            throw RunError(path + ": writing failed: " + file::cause(error),
                           "check the free space and quota there, or give another name");
        throw UsageError(option + " " + path + " cannot be written: " + file::cause(error),
                         "give a name in a folder that can be written");
    }
}

void make_folder_of(const std::string& path, const std::string& option) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error)
        refuse_place(error.value(), option + " " + path + ": its folder cannot be made: " + error.message(),
                     "give a name in a folder that can be written");
}

void write_report(const std::string& path, std::string_view text) {
    try {
        if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
            std::filesystem::create_directories(folder);
        file::replace(path, text);
    } catch (const std::system_error& error) {
        throw RunError("cannot write " + path + ": " + file::cause(error), "look for room and rights there");
    }
}

std::string read_report(const std::string& path, const std::string& remedy) {
    try {
        return file::content(path);
    } catch (const std::system_error& error) {
        throw DataError(path + ": cannot be read: " + file::cause(error), remedy);
    }
}

}  // namespace tutti
