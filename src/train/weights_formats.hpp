#pragma once
// The two formats of weights, and the conversions that both share.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tutti/base/named_tensor.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti::weights {

/// Of HDF5 files that write_weights wrote.
inline constexpr const char* weights_version_name = "tutti_weights_version";
inline constexpr std::int64_t weights_version = 1;
inline constexpr const char* normalisation_name = "tutti_normalisation";
inline constexpr const char* training_data_name = "tutti_training_data";

/// Whether it has that attribute; whether it begins as a safetensors file. False for what cannot be read.
bool is_exported_hdf5(const std::string& path);
bool is_safetensors(const std::string& path);

/// What they hold under those two names, or nothing. Throws DataError or store::Failure for other files.
TrainedOn trained_on_of_hdf5(const std::string& path);
TrainedOn trained_on_of_safetensors(const std::string& path);

/// All tensors of an HDF5 file, in no particular order. Throws DataError.
std::vector<NamedTensor> read_hdf5(const std::string& path);

/// All tensors of a safetensors file, in no particular order. Throws DataError, also when it is something
/// else.
std::vector<NamedTensor> read_safetensors(const std::string& path);

/// IEEE binary16: 1 sign, 5 exponent, 10 fraction bits; every value is a binary32 value.
constexpr float from_f16(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fU;
    const std::uint32_t fraction = bits & 0x3ffU;
    if (exponent == 0) {  // zero and subnormals: fraction · 2⁻²⁴
        const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    const std::uint32_t wide = exponent == 31 ? 255U : exponent + (127U - 15U);  // 31: infinity and NaN
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

/// Converts every element of type From in `bytes` with `convert`.
template <class From, class Convert>
std::vector<std::byte> converted(const std::vector<std::byte>& bytes, Convert convert) {
    using To = decltype(convert(From{}));
    const std::size_t count = bytes.size() / sizeof(From);
    std::vector<std::byte> result(count * sizeof(To));
    for (std::size_t i = 0; i < count; ++i) {
        From from;
        std::memcpy(&from, bytes.data() + i * sizeof(From), sizeof(From));
        const To to = convert(from);
        std::memcpy(result.data() + i * sizeof(To), &to, sizeof(To));
    }
    return result;
}

}  // namespace tutti::weights
