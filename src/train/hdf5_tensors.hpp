#pragma once
// NamedTensors in HDF5 files: one data set each, native little-endian; bf16 is u16 with the attribute
// dtype="bf16".

#include <cstdint>
#include <string>
#include <vector>

#include "hdf5_handle.hpp"
#include "tutti/base/named_tensor.hpp"

namespace tutti::store {

/// Bytes that one call hands to HDF5 at most: its lock is global, and a loader wants its turn.
inline constexpr std::size_t piece_bytes = std::size_t{4} << 20;

/// Opens for reading, without HDF5's file locks: files of a run are replaced, never changed in place, and
/// many cluster file systems have no locks. Throws DataError: missing, a directory, empty, not HDF5, cut off
/// (`remedy`).
Object open_file(const std::string& path, const std::string& remedy);

/// Whether a file has this attribute at its root; false for anything else, also for what cannot be read.
bool has_attribute(const std::string& path, const char* name);

/// A group that remembers the order in which its members were made. Throws Failure.
Object create_group(hid_t parent, const std::string& name);

/// Throws Failure.
void write_tensor(hid_t parent, const std::string& name, const NamedTensor& tensor);

/// The tensor without its name; with_bytes = false leaves the bytes empty. Throws Failure where the data set
/// is none of the types above.
NamedTensor read_tensor(hid_t dataset, bool with_bytes);

/// Dimensions of a data set; throws Failure beyond Shape::max_rank, or where the size overflows.
Shape shape_of(hid_t dataset);

/// Room for `shape` elements of `element` bytes. Throws Failure when the file cannot hold that much, so that
/// a damaged shape does not ask for all the memory there is.
std::vector<std::byte> make_room(hid_t dataset, const Shape& shape, std::size_t element);

/// The names in a group, in the order they were made where the file knows it, else sorted. Throws Failure.
std::vector<std::string> members(hid_t group);

/// Whether the attribute `dtype` of a data set says bf16. Throws Failure.
bool is_bf16(hid_t dataset);

/// Attributes of one element. Reading throws Failure where it is missing or of another type.
void write_attribute(hid_t object, const char* name, std::int64_t value);
void write_attribute(hid_t object, const char* name, double value);
void write_attribute(hid_t object, const char* name, const std::string& value);
void read_attribute(hid_t object, const char* name, std::int64_t& value);
void read_attribute(hid_t object, const char* name, double& value);
/// Of at most 4096 bytes.
void read_attribute(hid_t object, const char* name, std::string& value);
/// Text as write_attribute() wrote it, however long.
std::string read_long_text(hid_t object, const char* name);

}  // namespace tutti::store
