#include "virtual_sources.hpp"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "tutti/base/error.hpp"

namespace tutti::hdf5 {
namespace {

namespace fs = std::filesystem;

/// By H5Pget_virtual_filename or H5Pget_virtual_dsetname.
std::string text_of(ssize_t (*get)(hid_t, size_t, char*, size_t), hid_t creation, std::size_t source) {
    const ssize_t length = get(creation, source, nullptr, 0);
    std::string text(length > 0 ? static_cast<std::size_t>(length) + 1 : 1, '\0');
    get(creation, source, text.data(), text.size());
    text.pop_back();
    return text;
}

/// Where the library would find it: below HDF5_VDS_PREFIX, as it is named, or beside the file that names it.
/// Empty: nowhere.
std::string found(const std::string& file, const fs::path& beside) {
    const char* const variable = std::getenv("HDF5_VDS_PREFIX");
    std::string prefix = variable == nullptr ? "" : variable;
    constexpr std::string_view origin = "${ORIGIN}";
    if (prefix.starts_with(origin))
        prefix = (beside / fs::path(prefix.substr(origin.size())).relative_path()).string();
    const fs::path given(file), below(prefix);
    for (const fs::path& place :
         {below / given, below / given.filename(), given, beside / given, beside / given.filename()}) {
        std::error_code none;
        if (fs::is_regular_file(place, none)) return place.string();
    }
    return {};
}

}  // namespace

void require_virtual_sources(const Table& table, const std::string& path, const std::string& name) {
    const Handle creation(H5Dget_create_plist(table.data.get()), H5Pclose);
    if (H5Pget_layout(creation.get()) != H5D_VIRTUAL) return;
    std::size_t count = 0;
    H5Pget_virtual_count(creation.get(), &count);
    std::set<std::pair<std::string, std::string>> seen;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string file = text_of(H5Pget_virtual_filename, creation.get(), i),
                          data = text_of(H5Pget_virtual_dsetname, creation.get(), i);
        // A pattern for as many files as there are, or this very file.
        if (file.find('%') != std::string::npos || file == "." || !seen.emplace(file, data).second) continue;
        const auto fail = [&](const std::string& what) {
            throw DataError(path + ": " + name + " is put together from other files, and " + what +
                                "; HDF5 would read zeros there",
                            "bring it there, or give the files themselves: data.train: [A.h5, B.h5]");
        };
        const std::string place = found(file, fs::path(path).parent_path());
        if (place.empty()) fail(file + " is not there");
        const Handle source(H5Fopen(place.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
        if (!source) fail(place + " cannot be opened: " + last_error());
        const Handle values(H5Dopen2(source.get(), data.c_str(), H5P_DEFAULT), H5Dclose);
        if (!values) fail("there is no data set " + data + " in " + place);
    }
}

}  // namespace tutti::hdf5
