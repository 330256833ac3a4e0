#include "tutti/base/path_type.hpp"

#include <system_error>

#include "tutti/base/error.hpp"

namespace tutti {

std::filesystem::file_type type_of_path(const std::string& path) {
    std::error_code error;
    const auto type = std::filesystem::status(path, error).type();
    // status() counts "no such file" and "not a directory" as found out.
    if (error && type != std::filesystem::file_type::not_found)
        throw DataError(path + " cannot be looked at: " + error.message(),
                        "check the path, and the permissions of the folders in it");
    return type;
}

}  // namespace tutti
