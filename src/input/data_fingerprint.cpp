#include "tutti/input/data_fingerprint.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tutti/base/fingerprint.hpp"
#include "tutti/input/label_summary.hpp"

namespace tutti {

namespace {

std::string digits(std::uint64_t number) {
    return fmt::format("{:016x}", number);
}

}  // namespace

std::string labels_fingerprint(const Dataset& data) {
    return summarize_labels(data).fingerprint;
}

std::string data_fingerprint(const Dataset& data, const std::string& of_labels) {
    std::uint64_t result = std::stoull(of_labels.empty() ? labels_fingerprint(data) : of_labels, nullptr, 16);
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
