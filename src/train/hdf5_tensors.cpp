#include "hdf5_tensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <system_error>

#include "tutti/base/error.hpp"

namespace tutti::store {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

constexpr const char* dtype_attribute = "dtype";

hid_t file_type(DType dtype) {
    switch (dtype) {
        case DType::u8:
            return H5T_STD_U8LE;
        case DType::i64:
            return H5T_STD_I64LE;
        case DType::bf16:
            return H5T_STD_U16LE;
        case DType::f32:
            return H5T_IEEE_F32LE;
        case DType::f64:
            return H5T_IEEE_F64LE;
    }
    throw Failure("unknown element type");
}

Object make_space(const Shape& shape) {
    if (shape.rank() == 0) return {H5Screate(H5S_SCALAR), H5Sclose};
    std::array<hsize_t, Shape::max_rank> dims{};
    std::transform(shape.begin(), shape.end(), dims.begin(), [](auto d) { return static_cast<hsize_t>(d); });
    return {H5Screate_simple(static_cast<int>(shape.rank()), dims.data(), nullptr), H5Sclose};
}

/// Writes in pieces of at most piece_bytes: whole blocks of the inner dimensions that fit, a few at a time.
void write_elements(hid_t dataset, hid_t type, const Shape& shape, const std::byte* bytes,
                    std::size_t element) {
    const auto limit = static_cast<std::int64_t>(piece_bytes / element);
    std::size_t fitting = shape.rank();  // the dimensions from here on fit into one piece
    std::int64_t inner = 1;
    while (fitting > 0 && inner * shape[fitting - 1] <= limit) inner *= shape[--fitting];
    if (fitting == 0) {
        check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes));
        return;
    }
    const std::size_t split = fitting - 1;
    const std::int64_t rows = limit / inner;
    std::int64_t outer_count = 1;
    std::array<hsize_t, Shape::max_rank> start{};
    std::array<hsize_t, Shape::max_rank> count{};
    for (std::size_t d = 0; d < shape.rank(); ++d) count[d] = d < split ? 1 : static_cast<hsize_t>(shape[d]);
    for (std::size_t d = 0; d < split; ++d) outer_count *= shape[d];
    const Object space(H5Dget_space(dataset), H5Sclose);
    for (std::int64_t outer = 0; outer < outer_count; ++outer) {
        std::int64_t rest = outer;
        for (std::size_t d = split; d-- > 0; rest /= shape[d])
            start[d] = static_cast<hsize_t>(rest % shape[d]);
        for (std::int64_t row = 0; row < shape[split]; row += rows) {
            start[split] = static_cast<hsize_t>(row);
            count[split] = static_cast<hsize_t>(std::min(rows, shape[split] - row));
            const hsize_t elements = count[split] * static_cast<hsize_t>(inner);
            check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
            const Object memory(H5Screate_simple(1, &elements, nullptr), H5Sclose);
            check(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, bytes));
            bytes += elements * element;
        }
    }
}

DType dtype_of_dataset(hid_t dataset) {
    const Object type(H5Dget_type(dataset), H5Tclose);
    if (is_bf16(dataset)) {
        if (H5Tequal(type, H5T_STD_U16LE) > 0) return DType::bf16;
        throw Failure("it is marked bf16 but does not hold 16-bit words");
    }
    for (const DType candidate : {DType::f32, DType::f64, DType::i64, DType::u8})
        if (H5Tequal(type, file_type(candidate)) > 0) return candidate;
    throw Failure("its element type is none of f32, f64, bf16, i64, u8 (little-endian)");
}

Object access_without_locks() {
    Object access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    check(H5Pset_file_locking(access, false, true));
    check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
    return access;
}

void write_attribute_value(hid_t object, const char* name, hid_t stored, hid_t in_memory, const void* value) {
    const Object space(H5Screate(H5S_SCALAR), H5Sclose);
    const Object attribute(H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    check(H5Awrite(attribute, in_memory, value));
}

Object open_attribute(hid_t object, const char* name, H5T_class_t expected) {
    if (H5Aexists(object, name) <= 0) throw Failure(std::string("it has no attribute ") + name);
    Object attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
    const Object type(H5Aget_type(attribute), H5Tclose);
    const Object space(H5Aget_space(attribute), H5Sclose);
    if (H5Tget_class(type) != expected || H5Sget_simple_extent_npoints(space) != 1)
        throw Failure(std::string("its attribute ") + name + " has an unexpected type");
    return attribute;
}

}  // namespace

Object open_file(const std::string& path, const std::string& remedy) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found)
        throw DataError(path + " does not exist", "check the path");
    if (error) throw DataError(path + " cannot be opened: " + error.message(), "check its permissions");
    if (std::filesystem::is_directory(status)) throw DataError(path + " is a directory", "name a file in it");
    if (std::filesystem::file_size(path, error) == 0 && !error)
        throw DataError(path + " is an empty file", remedy);
    const htri_t is_hdf5 = H5Fis_hdf5(path.c_str());
    if (is_hdf5 < 0) throw DataError(path + " cannot be opened: " + cause(), "check its permissions");
    if (is_hdf5 == 0) throw DataError(path + " is not an HDF5 file", remedy);
    try {
        return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access_without_locks()), H5Fclose};
    } catch (const Failure& failure) {
        throw DataError(path + " cannot be read: it is cut off or damaged (" + failure.what() + ")", remedy);
    }
}

bool has_attribute(const std::string& path, const char* name) {
    const hdf5::QuietErrors silent;
    try {
        return H5Aexists(open_file(path, ""), name) > 0;
    } catch (const DataError&) {
        return false;
    }
}

Object create_group(hid_t parent, const std::string& name) {
    const Object properties(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
    check(H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
    return {H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT), H5Gclose};
}

void write_tensor(hid_t parent, const std::string& name, const NamedTensor& tensor) {
    const hid_t type = file_type(tensor.dtype);
    const Object space = make_space(tensor.shape);
    const Object properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    check(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER));
    const Object dataset(H5Dcreate2(parent, name.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                         H5Dclose);
    if (tensor.dtype == DType::bf16) write_attribute(dataset, dtype_attribute, std::string("bf16"));
    if (tensor.shape.count() > 0)
        write_elements(dataset, type, tensor.shape, tensor.bytes.data(), size_of(tensor.dtype));
}

NamedTensor read_tensor(hid_t dataset, bool with_bytes) {
    NamedTensor tensor;
    tensor.dtype = dtype_of_dataset(dataset);
    tensor.shape = shape_of(dataset);
    if (!with_bytes) return tensor;
    tensor.bytes = make_room(dataset, tensor.shape, size_of(tensor.dtype));
    if (!tensor.bytes.empty())
        check(H5Dread(dataset, file_type(tensor.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()));
    return tensor;
}

Shape shape_of(hid_t dataset) {
    const Object space(H5Dget_space(dataset), H5Sclose);
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0) throw Failure(cause());
    if (H5Sget_simple_extent_type(space) == H5S_NULL) throw Failure("it has no shape (a null data space)");
    if (rank > static_cast<int>(Shape::max_rank))
        throw Failure("it has " + std::to_string(rank) + " dimensions, more than " +
                      std::to_string(Shape::max_rank));
    std::array<hsize_t, Shape::max_rank> dims{};
    check(H5Sget_simple_extent_dims(space, dims.data(), nullptr));
    std::array<std::int64_t, Shape::max_rank> signed_dims{};
    std::int64_t bytes = 8;  // of the widest element
    for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
        signed_dims[d] = static_cast<std::int64_t>(dims[d]);
        if (signed_dims[d] < 0 || __builtin_mul_overflow(bytes, signed_dims[d], &bytes))
            throw Failure("its size overflows");
    }
    return Shape(std::span<const std::int64_t>(signed_dims.data(), static_cast<std::size_t>(rank)));
}

std::vector<std::byte> make_room(hid_t dataset, const Shape& shape, std::size_t element) {
    // No filter of HDF5 packs tighter than deflate, about 1000 to 1.
    constexpr std::uint64_t tightest = 4096;
    const auto bytes = static_cast<std::uint64_t>(shape.count()) * element;
    if (bytes / tightest > H5Dget_storage_size(dataset) || (bytes > 0 && H5Dget_storage_size(dataset) == 0))
        throw Failure("its shape claims more data than the file holds");
    return std::vector<std::byte>(bytes);
}

std::vector<std::string> members(hid_t group) {
    const Object properties(H5Gget_create_plist(group), H5Pclose);
    unsigned order = 0;
    check(H5Pget_link_creation_order(properties, &order));
    const H5_index_t index = (order & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
    H5G_info_t info{};
    check(H5Gget_info(group, &info));
    std::vector<std::string> names;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
        const auto name = [&](char* text, std::size_t room) {
            const ssize_t n = H5Lget_name_by_idx(group, ".", index, H5_ITER_INC, i, text, room, H5P_DEFAULT);
            if (n < 0) throw Failure(cause());
            return static_cast<std::size_t>(n);
        };
        std::string text(name(nullptr, 0), '\0');
        name(text.data(), text.size() + 1);
        names.push_back(std::move(text));
    }
    return names;
}

bool is_bf16(hid_t dataset) {
    if (H5Aexists(dataset, dtype_attribute) <= 0) return false;
    const Object attribute(H5Aopen(dataset, dtype_attribute, H5P_DEFAULT), H5Aclose);
    const Object type(H5Aget_type(attribute), H5Tclose);
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0) return false;
    std::string value;
    read_attribute(dataset, dtype_attribute, value);
    return value == "bf16";
}

void write_attribute(hid_t object, const char* name, std::int64_t value) {
    write_attribute_value(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void write_attribute(hid_t object, const char* name, double value) {
    write_attribute_value(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

void write_attribute(hid_t object, const char* name, const std::string& value) {
    const Object type(H5Tcopy(H5T_C_S1), H5Tclose);
    check(H5Tset_size(type, std::max<std::size_t>(value.size(), 1)));
    check(H5Tset_strpad(type, H5T_STR_NULLPAD));
    write_attribute_value(object, name, type, type, value.c_str());
}

void read_attribute(hid_t object, const char* name, std::int64_t& value) {
    check(H5Aread(open_attribute(object, name, H5T_INTEGER), H5T_NATIVE_INT64, &value));
}

void read_attribute(hid_t object, const char* name, double& value) {
    check(H5Aread(open_attribute(object, name, H5T_FLOAT), H5T_NATIVE_DOUBLE, &value));
}

void read_attribute(hid_t object, const char* name, std::string& value) {
    const Object attribute = open_attribute(object, name, H5T_STRING);
    const Object type(H5Aget_type(attribute), H5Tclose);
    const std::size_t size = H5Tget_size(type);
    if (H5Tis_variable_str(type) != 0 || size > 4096)
        throw Failure(std::string("its attribute ") + name + " has an unexpected type");
    value.assign(size, '\0');
    check(H5Aread(attribute, type, value.data()));
    value.resize(std::min(value.find('\0'), value.size()));
}

std::string read_long_text(hid_t object, const char* name) {
    const Object attribute = open_attribute(object, name, H5T_STRING);
    const Object type(H5Aget_type(attribute), H5Tclose);
    if (H5Tis_variable_str(type) != 0)
        throw Failure(std::string("its attribute ") + name + " has an unexpected type");
    std::string text(H5Tget_size(type), '\0');
    check(H5Aread(attribute, type, text.data()));
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
}

}  // namespace tutti::store
