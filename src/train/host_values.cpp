#include "host_values.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tutti/base/bf16.hpp"

namespace tutti {

std::vector<double> on_host(Device& device, const TensorView& tensor) {
    std::vector<std::byte> bytes(tensor.bytes());
    device.copy_to_host(bytes.data(), tensor);
    std::vector<double> values(static_cast<std::size_t>(tensor.count()));
    const auto take = [&](const auto* from) { std::copy_n(from, values.size(), values.begin()); };
    if (tensor.dtype == DType::f64) {
        take(reinterpret_cast<const double*>(bytes.data()));
    } else if (tensor.dtype == DType::f32) {
        take(reinterpret_cast<const float*>(bytes.data()));
    } else if (tensor.dtype == DType::bf16) {
        const auto* from = reinterpret_cast<const std::uint16_t*>(bytes.data());
        std::transform(from, from + values.size(), values.begin(), float_of_bf16);
    }
    return values;
}

}  // namespace tutti
