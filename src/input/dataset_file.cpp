#include "dataset_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "schema.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/open_files.hpp"
#include "tutti/base/shell_word.hpp"

namespace tutti {
namespace {

using hdf5::Handle;

constexpr const char* packers = "trainer pack images, clips, features, csv or idx (trainer pack --help)";

std::string remedy_where_none_is(const std::string& path) {
    // Several names that were joined, as other programs take them.
    if (path.find(',') != std::string::npos) {
        std::string words = path;
        std::ranges::replace(words, ',', ' ');
        return "if it is several files, give a list, " + shell_word("data.train=[" + path + "]") +
               ", or where --data is an option, --data " + words + "; if it is one, check the path";
    }
    if (path.find_first_of("*?[") != std::string::npos) return "no file has a name of this pattern: check it";
    return std::string("check the path, or make the file: ") + packers;
}

/// " (looked for in …)" behind a path that does not say by itself where that is.
std::string folder_of_search(const std::string& path) {
    std::error_code none;
    const std::filesystem::path folder = std::filesystem::current_path(none);
    if (none || std::filesystem::path(path).is_absolute()) return {};
    return " (looked for in " + folder.string() + ", where the program was started)";
}

std::string remedy_of_folder(const std::string& path) {
    return "name the HDF5 files in it, as " + shell_word(path + "/*.h5") +
           "; images in a folder per class are packed first: trainer pack images --dir " + shell_word(path) +
           " -o FILE.h5";
}

/// The library's own message for a file that is not there is a page long; the system's is two words.
void require_readable(const std::string& path) {
    // A pipe without a writer would be waited for.
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat kind {};
    const bool is_pipe = file >= 0 && fstat(file, &kind) == 0 && S_ISFIFO(kind.st_mode);
    char byte = 0;
    bool readable = file >= 0;
    if (readable && !is_pipe) {  // nothing is taken out of a pipe
        // A file that comes from tape may take its time.
        if (S_ISREG(kind.st_mode)) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
        readable = ::read(file, &byte, 1) >= 0;  // opening a directory succeeds
    }
    const int error = errno;
    if (file >= 0) close(file);
    if (is_pipe) throw DataError(path + ": a pipe, and HDF5 is read here and there", "name a regular file");
    if (!readable) {
        const std::string reason = std::generic_category().message(error);
        throw DataError(path + ": " + reason + (error == ENOENT ? folder_of_search(path) : std::string()),
                        error == ENOENT   ? remedy_where_none_is(path)
                        : error == EISDIR ? remedy_of_folder(path)
                        : error == EMFILE ? too_many_open_files_remedy()
                                          : "check the path and its permissions");
    }
}

}  // namespace

hdf5::File open_dataset_file(const std::string& path) {
    require_readable(path);
    if (H5Fis_hdf5(path.c_str()) <= 0) {
        if (path.ends_with(".csv") || path.ends_with(".tsv") || path.ends_with(".json"))
            throw DataError(path + ": a list or a table, but samples are read from HDF5",
                            "pack it once, with trainer pack csv a table of numbers, with images or clips a "
                            "list of files (data/README.md), and name the HDF5 file");
        schema::fail(path, "not an HDF5 file",
                     std::string("make one with ") + packers +
                         "; one whose beginning is damaged is packed or copied again");
    }
    const Handle access = hdf5::file_access();
    Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
    if (!file) {
        const std::string reason = hdf5::last_error();
        if (reason.find("truncated") != std::string::npos)
            schema::fail(path, "truncated (HDF5: " + reason + ")");
        schema::fail(path, "HDF5 cannot open it: " + reason);
    }
    return {std::move(file), path};
}

void require_schema(const hdf5::File& file) {
    const std::optional<std::string> name = hdf5::read_text(file, schema::name_attribute);
    if (!name)
        schema::fail(file.path, "HDF5, but not a Tutti data set: there is no attribute 'tutti_schema'");
    if (*name != schema::name)
        schema::fail(file.path, "the attribute 'tutti_schema' is '" + *name + "', not '" +
                                    std::string(schema::name) + "': this is not a data set");
    const std::optional<std::int64_t> version = hdf5::read_integer(file, schema::version_attribute);
    if (!version) schema::fail(file.path, "there is no attribute 'tutti_schema_version'");
    if (*version != schema::version)
        schema::fail(file.path, "schema version " + std::to_string(*version) +
                                    ", but this program reads version " + std::to_string(schema::version));
}

}  // namespace tutti
