#include "tutti/train/report_file.hpp"

#include <filesystem>

#include "atomic_file.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

std::string prepare_report(const std::string& directory, const std::string& name) {
    try {
        std::filesystem::create_directories(directory);
        const std::string path = (std::filesystem::path(directory) / name).string();
        if (std::filesystem::is_directory(path))
            throw UsageError(path + " is a directory", "give another --out");
        const file::Temporary probe(path);
        return path;
    } catch (const std::system_error& error) {
        throw UsageError("cannot write into " + directory + ": " + file::cause(error),
                         "give --out a directory that can be written");
    }
}

void write_report(const std::string& path, std::string_view text) {
    try {
        file::replace(path, text);
    } catch (const std::system_error& error) {
        throw DataError("cannot write " + path + ": " + file::cause(error), "look for room and rights there");
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
