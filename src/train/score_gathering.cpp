#include "score_gathering.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

RankedScores gather_scores(Communicator& communicator, const ClassScores& mine) {
    using Counts = std::array<std::int64_t, 2>;
    Counts count{std::ssize(mine.negative), std::ssize(mine.positive)};
    std::vector<std::int64_t> counts(2 * static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(view_of(std::span(count)), view_of(std::span(counts))).wait();
    // All-gathers are of equal blocks; what a block has too much is not looked at.
    std::size_t block = 0, negatives = 0, positives = 0;
    for (std::size_t i = 0; i < counts.size(); i += 2) {
        block = std::max(block, static_cast<std::size_t>(counts[i] + counts[i + 1]));
        negatives += static_cast<std::size_t>(counts[i]);
        positives += static_cast<std::size_t>(counts[i + 1]);
    }
    if (block == 0) return {};
    std::vector<double> sent(mine.negative), received(block * counts.size() / 2);
    sent.insert(sent.end(), mine.positive.begin(), mine.positive.end());
    sent.resize(block);
    communicator.all_gather(view_of(std::span(sent)), view_of(std::span(received))).wait();
    std::vector<double> negative, positive;
    negative.reserve(negatives);
    positive.reserve(positives);
    for (std::size_t i = 0; i < counts.size(); i += 2) {
        const auto of_rank = std::span(received).subspan(i / 2 * block, block);
        const auto middle = of_rank.begin() + counts[i];
        negative.insert(negative.end(), of_rank.begin(), middle);
        positive.insert(positive.end(), middle, middle + counts[i + 1]);
    }
    return {std::move(negative), std::move(positive)};
}

}  // namespace tutti
