#include "tutti/train/skipped_samples.hpp"

#include <fmt/format.h>

#include <utility>

namespace tutti {

void SkippedSamples::add(std::span<const SkippedSample> samples) {
    count_ += static_cast<std::int64_t>(samples.size());
    for (const SkippedSample& sample : samples)
        if (known_.insert(sample.index).second) new_reasons_.push_back(sample.reason);
}

std::int64_t SkippedSamples::take_count() {
    return std::exchange(count_, 0);
}

void SkippedSamples::tell(Communicator& communicator, Log& log) {
    const auto ranks = static_cast<std::size_t>(communicator.size());
    const auto rank = static_cast<std::size_t>(communicator.rank());
    std::vector<std::int64_t> news(ranks);
    news[rank] = static_cast<std::int64_t>(new_reasons_.size());
    communicator.all_reduce(view_of(std::span(news)), ReduceOp::sum).wait();
    for (std::size_t other = 0; other < ranks; ++other)
        for (std::int64_t i = 0; i < news[other]; ++i) {
            const auto number = static_cast<std::size_t>(i);
            const std::string reason = broadcast_text(
                communicator, other == rank ? new_reasons_[number] : std::string(), static_cast<int>(other));
            if (told_.insert(reason).second) log.warning(reason + "; the sample is skipped");
        }
    new_reasons_.clear();
}

void SkippedSamples::check_share(std::int64_t skipped, std::int64_t samples, const std::string& data) {
    if (2 * skipped <= samples) return;
    throw AgreedError(ExitCode::data,
                      fmt::format("{}: {} of {} samples could not be read, more than half; "
                                  "data.on_error: skip is for single broken samples: check the file",
                                  data, skipped, samples));
}

}  // namespace tutti
