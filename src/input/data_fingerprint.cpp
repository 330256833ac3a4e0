#include "tutti/input/data_fingerprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "tutti/base/fingerprint.hpp"

namespace tutti {

namespace {

std::uint64_t fingerprint_of_labels(const Dataset& data) {
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
    return fingerprint(std::as_bytes(data.targets()), result);
}

std::string digits(std::uint64_t number) {
    return fmt::format("{:016x}", number);
}

}  // namespace

std::string labels_fingerprint(const Dataset& data) {
    return digits(fingerprint_of_labels(data));
}

std::string data_fingerprint(const Dataset& data, const std::string& of_labels) {
    std::uint64_t result =
        of_labels.empty() ? fingerprint_of_labels(data) : std::stoull(of_labels, nullptr, 16);
    for (const auto& values : {std::span(data.info().mean), std::span(data.info().std)})
        result = fingerprint(std::as_bytes(values), result);
    const std::int64_t last = data.info().samples - 1;
    if (last < 0 || data.stored_sample_bytes() != data.info().sample_bytes()) return digits(result);
    std::vector<std::byte> sample(static_cast<std::size_t>(data.info().sample_bytes()));
    for (const std::int64_t index : {std::int64_t{0}, last / 2, last}) {
        std::int64_t label = 0;
        data.read(std::span(&index, 1), sample, std::span(&label, 1));
        result = fingerprint(sample, result);
    }
    return digits(result);
}

}  // namespace tutti
