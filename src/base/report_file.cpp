#include "tutti/base/report_file.hpp"

#include <cerrno>
#include <filesystem>

#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/failed_write.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// `folder`, or what there is of it.
fs::path existing_part(fs::path folder) {
    while (!folder.empty() && !fs::exists(folder)) folder = folder.parent_path();
    return folder;
}

/// Where symbolic links lead, also to what is not there yet. Throws std::system_error.
fs::path behind_links(fs::path path) {
    constexpr int most_links = 40;  // as Linux follows them (path_resolution(7))
    for (int links = 0; fs::is_symlink(fs::symlink_status(path)); ++links) {
        if (links == most_links) file::throw_errno(ELOOP);
        path = path.parent_path() / fs::read_symlink(path);
    }
    return path;
}

}  // namespace

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

void check_report_place(const std::string& directory, const std::string& name, const std::string& option) {
    try {
        const fs::path folder = existing_part(directory);
        if (!folder.empty() && !fs::is_directory(folder)) file::throw_errno(ENOTDIR);
        const fs::path path = fs::path(directory) / name;
        if (fs::is_directory(path))
            throw UsageError(path.string() + " is a directory", "give another " + option);
        const file::Temporary probe((folder / name).string());
    } catch (const std::system_error& error) {
        refuse_place(error.code().value(), "cannot write into " + directory + ": " + file::cause(error),
                     "give " + option + " a directory that can be written");
    }
}

std::string prepare_output(const std::string& path, const std::string& option) {
    fs::path output(path);
    try {
        if (output.filename().empty() || fs::is_directory(output))
            throw UsageError(option + " " + path + " is a directory", "name a file in it");
        // It would take the place of a device, such as /dev/null, for everybody.
        if (fs::exists(output) && !fs::is_regular_file(output))
            throw UsageError(option + " " + path + " is something else than a file", "give another name");
        output = behind_links(output);
        // What is missing of the folder is made by who writes the file, which may not come to that.
        const fs::path folder = existing_part(output.parent_path());
        const file::Temporary probe((folder / output.filename()).string());
        file::remove_left_over(output.string());
        return output.string();
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
