#include "hdf5_attributes.hpp"

#include "hdf5_texts.hpp"
#include "schema.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/utf8.hpp"

namespace tutti::hdf5 {
namespace {

struct Attribute {
    Handle attribute, type, space;
    std::size_t count = 0;
};

[[noreturn]] void unreadable(const File& file, const char* name) {
    const std::string reason = last_error();
    schema::fail(file.path, "the attribute '" + std::string(name) + "' cannot be read: " + reason);
}

[[noreturn]] void wrong_type(const File& file, const char* name, const std::string& wanted) {
    schema::fail(file.path, "the attribute '" + std::string(name) + "' is not " + wanted);
}

std::optional<Attribute> open_attribute(const File& file, const char* name) {
    const htri_t exists = H5Aexists(file.handle.get(), name);
    if (exists < 0) unreadable(file, name);
    if (exists == 0) return std::nullopt;
    Attribute result;
    result.attribute = Handle(H5Aopen(file.handle.get(), name, H5P_DEFAULT), H5Aclose);
    if (!result.attribute) unreadable(file, name);
    result.type = Handle(H5Aget_type(result.attribute.get()), H5Tclose);
    result.space = Handle(H5Aget_space(result.attribute.get()), H5Sclose);
    if (!result.type || !result.space) unreadable(file, name);
    const hssize_t count = H5Sget_simple_extent_npoints(result.space.get());
    if (count < 0) unreadable(file, name);
    result.count = static_cast<std::size_t>(count);
    return result;
}

std::vector<std::string> read_variable_strings(const File& file, const char* name, const Attribute& source) {
    VariableTexts texts(source.type.get(), source.space.get(), source.count);
    if (H5Aread(source.attribute.get(), texts.type(), texts.pointers()) < 0) unreadable(file, name);
    return texts.copy();
}

std::vector<std::string> read_fixed_strings(const File& file, const char* name, const Attribute& source) {
    std::string bytes(source.count * H5Tget_size(source.type.get()), '\0');
    if (H5Aread(source.attribute.get(), source.type.get(), bytes.data()) < 0) unreadable(file, name);
    return fixed_texts(source.type.get(), bytes);
}

std::vector<std::string> read_strings(const File& file, const char* name, const Attribute& source) {
    if (H5Tget_class(source.type.get()) != H5T_STRING) wrong_type(file, name, "text");
    return H5Tis_variable_str(source.type.get()) > 0 ? read_variable_strings(file, name, source)
                                                     : read_fixed_strings(file, name, source);
}

void write_attribute(const File& file, const char* name, hid_t type, const Handle& space,
                     const void* values) {
    const hid_t memory_type = type == H5T_STD_I64LE    ? H5T_NATIVE_INT64
                              : type == H5T_IEEE_F32LE ? H5T_NATIVE_FLOAT
                                                       : type;
    const Handle attribute(H5Acreate2(file.handle.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose);
    if (!attribute || H5Awrite(attribute.get(), memory_type, values) < 0) {
        const std::string reason = last_error();
        throw RunError(file.path + ": writing failed: the attribute '" + name + "': " + reason,
                       "check the free space and the quota there");
    }
}

Handle scalar_space() {
    return Handle(H5Screate(H5S_SCALAR), H5Sclose);
}

Handle list_space(std::size_t count) {
    const hsize_t dims = count;
    return Handle(H5Screate_simple(1, &dims, nullptr), H5Sclose);
}

}  // namespace

std::optional<std::int64_t> read_integer(const File& file, const char* name) {
    const std::optional<Attribute> source = open_attribute(file, name);
    if (!source) return std::nullopt;
    if (H5Tget_class(source->type.get()) != H5T_INTEGER || source->count != 1)
        wrong_type(file, name, "one integer");
    std::int64_t value = 0;
    if (H5Aread(source->attribute.get(), H5T_NATIVE_INT64, &value) < 0) unreadable(file, name);
    return value;
}

std::optional<std::string> read_text(const File& file, const char* name) {
    const std::optional<Attribute> source = open_attribute(file, name);
    if (!source) return std::nullopt;
    if (source->count != 1) wrong_type(file, name, "one text");
    return read_strings(file, name, *source).front();
}

std::vector<std::string> read_texts(const File& file, const char* name) {
    const std::optional<Attribute> source = open_attribute(file, name);
    if (!source) return {};
    std::vector<std::string> texts = read_strings(file, name, *source);
    for (std::string& text : texts) text = as_utf8(text);
    return texts;
}

std::vector<float> read_floats(const File& file, const char* name) {
    const std::optional<Attribute> source = open_attribute(file, name);
    if (!source) return {};
    const H5T_class_t type = H5Tget_class(source->type.get());
    if (type != H5T_FLOAT && type != H5T_INTEGER) wrong_type(file, name, "a list of numbers");
    std::vector<float> values(source->count);
    if (H5Aread(source->attribute.get(), H5T_NATIVE_FLOAT, values.data()) < 0) unreadable(file, name);
    return values;
}

void write_integer(const File& file, const char* name, std::int64_t value) {
    write_attribute(file, name, H5T_STD_I64LE, scalar_space(), &value);
}

void write_text(const File& file, const char* name, const std::string& value) {
    const char* pointer = value.c_str();
    write_attribute(file, name, variable_text_type().get(), scalar_space(), &pointer);
}

void write_texts(const File& file, const char* name, std::span<const std::string> values) {
    if (values.empty()) return;
    std::vector<const char*> pointers;
    for (const std::string& value : values) pointers.push_back(value.c_str());
    write_attribute(file, name, variable_text_type().get(), list_space(values.size()), pointers.data());
}

void write_floats(const File& file, const char* name, std::span<const float> values) {
    if (values.empty()) return;
    write_attribute(file, name, H5T_IEEE_F32LE, list_space(values.size()), values.data());
}

}  // namespace tutti::hdf5
