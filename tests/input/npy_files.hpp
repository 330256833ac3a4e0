#pragma once
// .npy files, byte by byte.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tutti::test {

/// As numpy.save writes it: version 1 with a header of 128 bytes at most, `values` as they lie in memory.
template <class Value>
std::string npy(const std::string& type, const std::string& shape, const std::vector<Value>& values,
                int version = 1, const std::string& fortran_order = "False") {
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': " + fortran_order + ", 'shape': " + shape + ", }";
    const std::size_t before = version == 1 ? 10 : 12;
    while ((before + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes = "\x93NUMPY";
    bytes += static_cast<char>(version);
    bytes += '\0';
    for (std::size_t i = 0; i < before - 8; ++i) bytes += static_cast<char>(header.size() >> 8 * i & 0xffU);
    bytes += header;
    const std::size_t begin = bytes.size();
    bytes.resize(begin + values.size() * sizeof(Value));
    // Of none there is no address.
    if (!values.empty()) std::memcpy(bytes.data() + begin, values.data(), values.size() * sizeof(Value));
    return bytes;
}

}  // namespace tutti::test
