#include "value_gathering.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

std::vector<double> gather_values(Communicator& communicator, std::vector<double> mine) {
    std::int64_t count = std::ssize(mine);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(view_of(std::span(&count, 1)), view_of(std::span(counts))).wait();
    // All-gathers are of equal blocks; what a block has too much is not looked at.
    const auto block = static_cast<std::size_t>(std::ranges::max(counts));
    if (block == 0) return {};
    std::vector<double> received(block * counts.size()), all;
    mine.resize(block);
    communicator.all_gather(view_of(std::span(mine)), view_of(std::span(received))).wait();
    all.reserve(static_cast<std::size_t>(std::reduce(counts.begin(), counts.end())));
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
        const auto of_rank =
            std::span(received).subspan(rank * block, static_cast<std::size_t>(counts[rank]));
        all.insert(all.end(), of_rank.begin(), of_rank.end());
    }
    return all;
}

}  // namespace tutti
