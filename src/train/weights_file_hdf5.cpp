// Weights from HDF5 files: checkpoints, and files of others with one data set per name.

#include <algorithm>
#include <optional>

#include "checkpoint_model.hpp"
#include "hdf5_tensors.hpp"
#include "tutti/base/bf16.hpp"
#include "tutti/base/error.hpp"
#include "weights_formats.hpp"

namespace tutti::weights {
namespace {

using store::Failure;
using store::Object;

/// Floating-point bits beyond the type's fields would be lost in a binary32.
bool fits_f32(hid_t type) {
    std::size_t sign = 0, exponent_at = 0, exponent = 0, fraction_at = 0, fraction = 0;
    store::check(H5Tget_fields(type, &sign, &exponent_at, &exponent, &fraction_at, &fraction));
    return exponent <= 8 && fraction <= 23;
}

std::string describe(hid_t type) {
    return std::to_string(8 * H5Tget_size(type)) + "-bit floating point";
}

/// How a data set is read: nothing for one that is no weight (text, booleans, other integers). Throws Failure
/// for floating-point types that fit neither f32 nor f64.
std::optional<DType> weight_type(hid_t dataset) {
    const Object type(H5Dget_type(dataset), H5Tclose);
    const std::size_t size = H5Tget_size(type);
    switch (H5Tget_class(type)) {
        case H5T_FLOAT:
            if (fits_f32(type)) return DType::f32;
            if (H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F64BE) > 0) return DType::f64;
            throw Failure("its type, " + describe(type) +
                          ", is not supported: store it as float32 or float64");
        case H5T_INTEGER:
            if (size == 2 && store::is_bf16(dataset)) return DType::bf16;
            if (size == 1 && H5Tget_sign(type) == H5T_SGN_NONE) return DType::u8;
            if (size >= 4 && size <= 8 && H5Tget_sign(type) == H5T_SGN_2) return DType::i64;
            return std::nullopt;
        default:
            return std::nullopt;
    }
}

hid_t memory_type(DType dtype) {
    switch (dtype) {
        case DType::u8:
            return H5T_NATIVE_UINT8;
        case DType::i64:
            return H5T_NATIVE_INT64;
        case DType::bf16:
            return H5T_NATIVE_UINT16;
        case DType::f32:
            return H5T_NATIVE_FLOAT;
        case DType::f64:
            return H5T_NATIVE_DOUBLE;
    }
    throw Failure("unknown element type");
}

std::optional<NamedTensor> read_dataset(hid_t dataset) {
    const std::optional<DType> dtype = weight_type(dataset);
    if (!dtype) return std::nullopt;
    NamedTensor tensor;
    tensor.dtype = *dtype;
    tensor.shape = store::shape_of(dataset);
    // HDF5 converts byte order and width.
    tensor.bytes = store::make_room(dataset, tensor.shape, size_of(*dtype));
    if (!tensor.bytes.empty())
        store::check(
            H5Dread(dataset, memory_type(*dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()));
    return tensor;
}

/// bf16 becomes f32, as in safetensors.
void widen(NamedTensor& tensor) {
    if (tensor.dtype != DType::bf16) return;
    tensor.bytes = converted<std::uint16_t>(tensor.bytes, float_of_bf16);
    tensor.dtype = DType::f32;
}

/// Paths of all links but external ones. A group is entered once, however many links lead to it.
std::vector<std::string> all_paths(hid_t file) {
    std::vector<std::string> paths;
    store::check(H5Lvisit(
        file, H5_INDEX_NAME, H5_ITER_INC,
        [](hid_t, const char* name, const H5L_info_t* info, void* data) -> herr_t {
            try {
                if (info->type == H5L_TYPE_HARD || info->type == H5L_TYPE_SOFT)
                    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
                return 0;
            } catch (...) {
                return -1;  // exceptions must not cross the C library
            }
        },
        &paths));
    return paths;
}

std::vector<NamedTensor> read_any(hid_t file, const std::string& path) {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : all_paths(file)) {
        try {
            // A soft link may lead nowhere.
            if (H5Oexists_by_name(file, name.c_str(), H5P_DEFAULT) == 0) continue;
            const Object object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
            if (H5Iget_type(object) != H5I_DATASET) continue;
            if (auto tensor = read_dataset(object)) {
                tensor->name = name;
                std::replace(tensor->name.begin(), tensor->name.end(), '/', '.');
                tensors.push_back(std::move(*tensor));
            }
        } catch (const Failure& failure) {
            throw DataError("weights file " + path + ", data set " + name + ": " + failure.what(),
                            "write the file again");
        }
    }
    return tensors;
}

}  // namespace

bool is_exported_hdf5(const std::string& path) {
    return store::has_attribute(path, weights_version_name);
}

TrainedOn trained_on_of_hdf5(const std::string& path) {
    const hdf5::QuietErrors silent;
    const Object file = store::open_file(path, "write the file again");
    const auto text = [&](const char* name) {
        return H5Aexists(file, name) > 0 ? store::read_long_text(file, name) : std::string();
    };
    return {text(normalisation_name), text(training_data_name)};
}

std::vector<NamedTensor> read_hdf5(const std::string& path) {
    const hdf5::QuietErrors silent;
    const Object file = store::open_file(path, "copy or write the file again");
    try {
        auto tensors = is_checkpoint(file) ? load_checkpoint_model(file, path) : read_any(file, path);
        for (NamedTensor& tensor : tensors) widen(tensor);
        return tensors;
    } catch (const Failure& failure) {
        throw DataError("weights file " + path + " cannot be read: " + failure.what(),
                        "write the file again");
    }
}

}  // namespace tutti::weights
