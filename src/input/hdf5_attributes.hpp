#pragma once
// Reads and writes attributes of the root group. Any width of integer and float, and both kinds of string
// (fixed and variable length), are accepted, as h5py, MATLAB and C programs choose differently.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hdf5_support.hpp"

namespace tutti::hdf5 {

/// An open file with the name it has in messages.
struct File {
    Handle handle;
    std::string path;
};

// Absent attributes give nothing (or an empty list). DataError: of another type, not the one value that is
// wanted, unreadable.
std::optional<std::int64_t> read_integer(const File& file, const char* name);
std::optional<std::string> read_text(const File& file, const char* name);
/// Bytes that are not UTF-8 become U+FFFD.
std::vector<std::string> read_texts(const File& file, const char* name);
std::vector<float> read_floats(const File& file, const char* name);

// Empty lists write nothing. RunError: the write failed.
void write_integer(const File& file, const char* name, std::int64_t value);
void write_text(const File& file, const char* name, const std::string& value);
void write_texts(const File& file, const char* name, std::span<const std::string> values);
void write_floats(const File& file, const char* name, std::span<const float> values);

}  // namespace tutti::hdf5
