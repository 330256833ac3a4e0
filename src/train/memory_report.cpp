#include "memory_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <vector>

#include "tutti/base/memory_use.hpp"

namespace tutti {

std::string memory_row(Communicator& communicator, std::int64_t step) {
    std::int64_t mine = peak_resident_bytes();
    std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(view_of(std::span(&mine, 1)), view_of(std::span(all))).wait();
    return fmt::format(R"({{"type": "memory", "step": {}, "peak_rss_bytes": [{}]}})", step,
                       fmt::join(all, ", "));
}

}  // namespace tutti
