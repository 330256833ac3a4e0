#include "hdf5_table.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <utility>

#include "virtual_sources.hpp"

namespace tutti::hdf5 {
namespace {

/// A chunk larger than the cache is decompressed again for every sample, and the default cache is 1 MiB. What
/// a link leads to in another file is opened as the files themselves are.
Handle table_access() {
    Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
    H5Pset_elink_fapl(access.get(), file_access().get());
    H5Pset_chunk_cache(access.get(), chunk_cache_slots, chunk_cache_bytes, H5D_CHUNK_CACHE_W0_DEFAULT);
    return access;
}

/// What h5py writes by default every HDF5 reads; with libver='latest' it is what its own does.
std::string newer_format() {
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    return fmt::format(
        "where a newer HDF5 than this program's, {}.{}.{}, wrote it, let it write for older ones, in "
        "h5py with File(path, 'w', libver=('earliest', 'v110')); else copy it again",
        major, minor, release);
}

}  // namespace

Table table_of(Handle data) {
    Table table;
    table.data = std::move(data);
    table.type = Handle(H5Dget_type(table.data.get()), H5Tclose);
    table.space = Handle(H5Dget_space(table.data.get()), H5Sclose);
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    const int rank = H5Sget_simple_extent_dims(table.space.get(), dims.data(), nullptr);
    for (int i = 0; i < rank; ++i)
        table.dims.push_back(static_cast<std::int64_t>(dims[static_cast<std::size_t>(i)]));
    return table;
}

bool has_table(const File& file, const char* name) {
    return H5Lexists(file.handle.get(), name, H5P_DEFAULT) > 0;
}

Table open_table(const File& file, const char* name, const std::string& remedy) {
    if (!has_table(file, name)) schema::fail(file.path, "there is no data set " + std::string(name), remedy);
    const Handle access = table_access();
    Handle data(H5Dopen2(file.handle.get(), name, access.get()), H5Dclose);
    if (!data) {
        const std::string reason = last_error();
        const bool newer = reason.find("bad version number") != std::string::npos;
        schema::fail(file.path, std::string(name) + " cannot be opened: " + reason,
                     newer ? newer_format() : remedy);
    }
    Table table = table_of(std::move(data));
    table.sources = open_virtual_sources(table, file.path, name);
    return table;
}

std::string describe(const Table& table) {
    const hid_t type = table.type.get();
    const std::string bits = std::to_string(8 * H5Tget_size(type));
    std::string text = "neither integers nor floats,";
    if (H5Tget_class(type) == H5T_INTEGER) text = (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits;
    if (H5Tget_class(type) == H5T_FLOAT) text = "float" + bits;
    if (H5Tget_class(type) == H5T_STRING) text = "text";
    text += " [";
    for (std::size_t i = 0; i < table.dims.size(); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(table.dims[i]);
    return text + "]";
}

}  // namespace tutti::hdf5
