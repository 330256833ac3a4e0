#include "hdf5_table.hpp"

#include <array>
#include <cstddef>
#include <limits>

#include "virtual_sources.hpp"

namespace tutti::hdf5 {
namespace {

/// A chunk larger than the cache is decompressed again for every sample, and the default cache is 1 MiB.
Handle chunk_cache() {
    Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
    H5Pset_chunk_cache(access.get(), chunk_cache_slots, chunk_cache_bytes, H5D_CHUNK_CACHE_W0_DEFAULT);
    return access;
}

/// Of one value in the file, as H5Tget_size() says of all but texts of variable length, which it takes for
/// pointers: they are a length, an address and an index (HDF5 File Format Specification, III.C).
std::uint64_t stored_bytes(const Table& table) {
    if (H5Tis_variable_str(table.type.get()) <= 0) return H5Tget_size(table.type.get());
    const Handle file(H5Iget_file_id(table.data.get()), H5Fclose);
    const Handle creation(H5Fget_create_plist(file.get()), H5Pclose);
    std::size_t address = 0, length = 0;
    H5Pget_sizes(creation.get(), &address, &length);
    return 2 * sizeof(std::uint32_t) + address;
}

}  // namespace

bool has_table(const File& file, const char* name) {
    return H5Lexists(file.handle.get(), name, H5P_DEFAULT) > 0;
}

Table open_table(const File& file, const char* name, const std::string& remedy) {
    if (!has_table(file, name)) schema::fail(file.path, "there is no data set " + std::string(name), remedy);
    Table table;
    const Handle access = chunk_cache();
    table.data = Handle(H5Dopen2(file.handle.get(), name, access.get()), H5Dclose);
    if (!table.data) {
        const std::string reason = last_error();
        schema::fail(file.path, std::string(name) + " cannot be opened: " + reason, remedy);
    }
    table.type = Handle(H5Dget_type(table.data.get()), H5Tclose);
    table.space = Handle(H5Dget_space(table.data.get()), H5Sclose);
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    const int rank = H5Sget_simple_extent_dims(table.space.get(), dims.data(), nullptr);
    for (int i = 0; i < rank; ++i)
        table.dims.push_back(static_cast<std::int64_t>(dims[static_cast<std::size_t>(i)]));
    require_virtual_sources(table, file.path, name);
    return table;
}

Storage storage_of(const Table& table) {
    Storage storage{.needed = stored_bytes(table), .held = H5Dget_storage_size(table.data.get())};
    for (const std::int64_t dim : table.dims)
        if (__builtin_mul_overflow(storage.needed, static_cast<std::uint64_t>(dim), &storage.needed))
            storage.needed = std::numeric_limits<std::uint64_t>::max();
    const Handle creation(H5Dget_create_plist(table.data.get()), H5Pclose);
    const H5D_layout_t layout = H5Pget_layout(creation.get());
    const bool filtered = layout == H5D_CHUNKED && H5Pget_nfilters(creation.get()) > 0;
    if (layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED)
        storage.complete =
            filtered ? storage.needed == 0 || storage.held > 0 : storage.held >= storage.needed;
    return storage;
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
