#include "hdf5_storage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>

namespace tutti::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t too_many = std::numeric_limits<std::uint64_t>::max();

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
    std::uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? too_many : result;
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

Storage storage(const char* unit, std::uint64_t needed, std::uint64_t held) {
    if (held >= needed) return {};
    return {false, true, held == 0,
            fmt::format("{} {}, of which {} {} written", needed, unit, held, held == 1 ? "was" : "were")};
}

/// Compressed chunks may be of any size, and those at the border hold more than the table: they are counted.
Storage chunks_of(const Table& table, hid_t creation) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    H5Pget_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
    std::uint64_t needed = 1;
    for (std::size_t i = 0; i < table.dims.size(); ++i) {
        const auto dim = static_cast<std::uint64_t>(table.dims[i]);
        needed = product(needed, dim / chunk[i] + (dim % chunk[i] == 0 ? 0 : 1));
    }
    hsize_t held = 0;
    if (H5Dget_num_chunks(table.data.get(), table.space.get(), &held) < 0)
        return {false, false, false, "whose chunks cannot be found: " + last_error()};
    return storage(needed == 1 ? "chunk" : "chunks", needed, held);
}

/// Where the library looks for a raw file: below HDF5_EXTFILE_PREFIX, or where the program was started.
fs::path raw_file(const std::string& name, const fs::path& beside) {
    const char* const variable = std::getenv("HDF5_EXTFILE_PREFIX");
    std::string prefix = variable == nullptr || fs::path(name).is_absolute() ? "" : variable;
    constexpr std::string_view origin = "${ORIGIN}";
    if (prefix.starts_with(origin))
        prefix = (beside / fs::path(prefix.substr(origin.size())).relative_path()).string();
    return fs::path(prefix) / name;
}

/// Behind the end of a raw file the library reads zeros.
Storage raw_files_of(const Table& table, hid_t creation, std::uint64_t needed) {
    const fs::path beside = fs::path(file_of(table.data.get())).parent_path();
    std::uint64_t held = 0;
    for (int i = 0; i < H5Pget_external_count(creation) && held < needed; ++i) {
        std::array<char, 4096> name{};
        off_t offset = 0;
        hsize_t bytes = 0;
        H5Pget_external(creation, static_cast<unsigned>(i), name.size() - 1, name.data(), &offset, &bytes);
        const fs::path file = raw_file(name.data(), beside);
        std::error_code none;
        const bool there = fs::exists(file, none);
        const std::uint64_t part = std::min<std::uint64_t>(bytes, needed - held);
        if (there && !fs::is_regular_file(file, none)) {  // whose end nobody knows
            held += part;
            continue;
        }
        const std::uint64_t size = there ? fs::file_size(file, none) : 0;
        const auto begin = static_cast<std::uint64_t>(offset);
        const std::uint64_t found = std::min(part, size > begin ? size - begin : 0);
        held += found;
        if (found < part)
            return {false, true, held == 0,
                    fmt::format("{} bytes, of which {} are there: {} {}", needed, held, file.string(),
                                there ? "ends too early" : "is missing")};
    }
    return storage("bytes", needed, held);
}

}  // namespace

Storage storage_of(const Table& table) {
    std::uint64_t needed = stored_bytes(table);
    for (const std::int64_t dim : table.dims) needed = product(needed, static_cast<std::uint64_t>(dim));
    if (needed == 0) return {};
    const Handle creation(H5Dget_create_plist(table.data.get()), H5Pclose);
    const H5D_layout_t layout = H5Pget_layout(creation.get());
    if (layout == H5D_CHUNKED) return chunks_of(table, creation.get());
    if (layout != H5D_CONTIGUOUS) return {};
    if (H5Pget_external_count(creation.get()) > 0) return raw_files_of(table, creation.get(), needed);
    return storage("bytes", needed, H5Dget_storage_size(table.data.get()));
}

}  // namespace tutti::hdf5
