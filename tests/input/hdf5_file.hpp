#pragma once
// HDF5 files made by hand for tests: what another program may write, right or wrong.

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "input/hdf5_support.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {

using hdf5::Handle;

/// A new file; each function adds one object.
class Hdf5File {
  public:
    explicit Hdf5File(const std::string& path, hsize_t user_block = 0) {
        const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
        H5Pset_userblock(creation.get(), user_block);
        file_ = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), H5Fclose);
        if (!file_) throw std::runtime_error("cannot make " + path);
    }

    hid_t id() const { return file_.get(); }

    void integer(const char* name, std::int64_t value) {
        attribute(name, H5T_STD_I32LE, H5T_NATIVE_INT64, scalar(), &value);
    }

    void text(const char* name, const std::string& value) {
        const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
        H5Tset_size(type.get(), value.size() + 1);
        attribute(name, type.get(), type.get(), scalar(), value.c_str());
    }

    void doubles(const char* name, const std::vector<double>& values) {
        attribute(name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, list(values.size()), values.data());
    }

    /// Names of `width` bytes each, padded in the way of `padding`.
    void fixed_texts(const char* name, std::size_t width, H5T_str_t padding, const std::string& bytes) {
        const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
        H5Tset_size(type.get(), width);
        H5Tset_strpad(type.get(), padding);
        attribute(name, type.get(), type.get(), list(bytes.size() / width), bytes.data());
    }

    void variable_texts(const char* name, const std::vector<const char*>& values, H5T_cset_t set) {
        const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
        H5Tset_size(type.get(), H5T_VARIABLE);
        H5Tset_cset(type.get(), set);
        attribute(name, type.get(), type.get(), list(values.size()), values.data());
    }

    /// `layout` may change the creation property list: chunks, filters, ….
    void table(const char* name, hid_t file_type, hid_t memory_type, const std::vector<hsize_t>& dims,
               const void* values, const std::function<void(hid_t)>& layout = {}) {
        const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
        const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
        if (layout) layout(creation.get());
        const Handle data(
            H5Dcreate2(id(), name, file_type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
            H5Dclose);
        if (!data) throw std::runtime_error(std::string("cannot make ") + name);
        if (values != nullptr && H5Dwrite(data.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
            throw std::runtime_error(std::string("cannot write ") + name);
    }

    /// Writes the first `rows` of a table, and all beside each other in them.
    void first_rows(const char* name, hid_t memory_type, hsize_t rows, const void* values) {
        const Handle data(H5Dopen2(id(), name, H5P_DEFAULT), H5Dclose);
        const Handle space(H5Dget_space(data.get()), H5Sclose);
        std::vector<hsize_t> begin(H5S_MAX_RANK), count(H5S_MAX_RANK);
        const int rank = H5Sget_simple_extent_dims(space.get(), count.data(), nullptr);
        count[0] = rows;
        H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr);
        const Handle memory(H5Screate_simple(rank, count.data(), nullptr), H5Sclose);
        if (H5Dwrite(data.get(), memory_type, memory.get(), space.get(), H5P_DEFAULT, values) < 0)
            throw std::runtime_error(std::string("cannot write ") + name);
    }

    void remove_attribute(const char* name) { H5Adelete(id(), name); }
    void remove_table(const char* name) { H5Ldelete(id(), name, H5P_DEFAULT); }

  private:
    static Handle scalar() { return Handle(H5Screate(H5S_SCALAR), H5Sclose); }
    static Handle list(hsize_t count) { return Handle(H5Screate_simple(1, &count, nullptr), H5Sclose); }
    void attribute(const char* name, hid_t file_type, hid_t memory_type, const Handle& space,
                   const void* values) {
        const Handle made(H5Acreate2(id(), name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
        if (!made || H5Awrite(made.get(), memory_type, values) < 0)
            throw std::runtime_error(std::string("cannot write attribute ") + name);
    }

    Handle file_;
};

/// Pixel k of all of them is k mod 251.
inline std::vector<std::uint8_t> counting_pixels(std::size_t count) {
    std::vector<std::uint8_t> pixels(count);
    for (std::size_t i = 0; i < count; ++i) pixels[i] = static_cast<std::uint8_t>(i % 251);
    return pixels;
}

/// The parts of a right file of `samples` images 4 × 3 × 2 in 10 classes, label i mod 10, for tests to vary.
struct ImageFile {
    hsize_t samples = 20, user_block = 0;
    std::function<void(hid_t)> layout{};      ///< of /samples
    std::function<void(Hdf5File&)> change{};  ///< last words: remove, add
    hid_t label_type = H5T_STD_I64LE;
    std::vector<std::int64_t> labels{};  ///< empty: i mod 10

    void write(const std::string& path) const {
        Hdf5File file(path, user_block);
        file.text("tutti_schema", "samples");
        file.integer("tutti_schema_version", 1);
        file.integer("classes", 10);
        const std::vector<std::uint8_t> pixels = counting_pixels(samples * 24);
        file.table("samples", H5T_STD_U8LE, H5T_NATIVE_UINT8, {samples, 4, 3, 2}, pixels.data(), layout);
        std::vector<std::int64_t> values = labels;
        for (hsize_t i = values.size(); i < samples; ++i) values.push_back(static_cast<std::int64_t>(i % 10));
        file.table("labels", label_type, H5T_NATIVE_INT64, {values.size()}, values.data());
        if (change) change(file);
    }
};

/// The message of the DataError that `call` throws; empty when it throws none.
inline std::string data_error(const std::function<void()>& call) {
    try {
        call();
    } catch (const DataError& error) {
        return error.what();
    }
    return {};
}

}  // namespace tutti::test
