#include "reading_memory.hpp"

#include <algorithm>
#include <cstdint>

#include "tutti/train/precision.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {

std::size_t transform_bytes(const Config& config, const Dataset& train, const Dataset* val, int ranks) {
    const std::int64_t batch = largest_micro_batch(config, ranks);
    const auto workers = static_cast<std::size_t>(loader_workers(config.data));
    const std::size_t evaluation = val ? val->reading_bytes(batch) : 0;
    // The workers of training and those of evaluation, and the thread that has both.
    return workers * (train.reading_bytes(batch) + evaluation) +
           std::max(train.reading_bytes(batch), evaluation);
}

std::size_t bring_in_bytes(const Config& config, const Dataset& train, const Dataset* val) {
    const auto brings = [](const Dataset& data) { return data.brought_in_bytes() > data.mapped_bytes(); };
    const std::size_t loaders =
        (brings(train) ? std::size_t{1} : 0) + (val && brings(*val) ? std::size_t{1} : 0);
    if (loaders == 0) return 0;
    const auto workers = static_cast<std::size_t>(loader_workers(config.data));
    return (loaders * workers + 1) * bring_in_piece_bytes;
}

}  // namespace tutti
