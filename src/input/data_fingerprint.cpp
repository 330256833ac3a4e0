#include "tutti/input/data_fingerprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tutti/base/fingerprint.hpp"

namespace tutti {

std::string data_fingerprint(const Dataset& data) {
    constexpr std::int64_t piece = 65536;
    const std::array numbers{data.info().samples, data.stored_sample_bytes(), data.info().targets};
    std::uint64_t result = fingerprint(std::as_bytes(std::span(numbers)));
    std::vector<std::int64_t> indices, labels;
    for (std::int64_t begin = 0; data.info().labelled && begin < data.info().samples; begin += piece) {
        indices.resize(static_cast<std::size_t>(std::min(piece, data.info().samples - begin)));
        labels.resize(indices.size());
        std::iota(indices.begin(), indices.end(), begin);
        data.read_labels(indices, labels);
        result = fingerprint(std::as_bytes(std::span(labels)), result);
    }
    return fmt::format("{:016x}", fingerprint(std::as_bytes(data.targets()), result));
}

}  // namespace tutti
