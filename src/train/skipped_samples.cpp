#include "tutti/train/skipped_samples.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tutti/base/json_text.hpp"

namespace tutti {

void SkippedSamples::add(std::span<const SkippedSample> samples) {
    count_ += static_cast<std::int64_t>(samples.size());
    for (const SkippedSample& sample : samples) {
        if (told_.size() + new_reasons_.size() >= named) return;
        if (known_.insert(sample.index).second) new_reasons_.push_back(sample.reason);
    }
}

std::int64_t SkippedSamples::take_count() {
    return std::exchange(count_, 0);
}

void SkippedSamples::tell(Communicator& communicator, Log& log) {
    if (told_.size() >= named) return;
    const nlohmann::json mine = new_reasons_;
    new_reasons_.clear();
    // What a library says of its error need not be UTF-8.
    const std::string text = json_text(mine);
    for (const std::string& reasons : all_gather_text(communicator, text))
        for (const nlohmann::json& reason : nlohmann::json::parse(reasons)) {
            if (told_.size() >= named) break;
            if (told_.insert(reason.get<std::string>()).second)
                log.warning(reason.get<std::string>() + "; the sample is skipped");
        }
    if (told_.size() >= named)
        log.warning(
            fmt::format("{} samples that cannot be read have been named; more are only counted", named));
}

Failure reading_failure(const Error& error) {
    const bool data = error.code() == ExitCode::data;
    return {error.code(), std::string(error.what()) +
                              (data ? "; or go on without such samples with data.on_error=skip" : "")};
}

void SkippedSamples::check_share(std::int64_t skipped, std::int64_t samples, const std::string& data) {
    if (2 * skipped <= samples) return;
    throw AgreedError(ExitCode::data,
                      fmt::format("{}: {} of {} samples could not be read, more than half; "
                                  "data.on_error: skip is for single broken samples: check the file",
                                  data, skipped, samples));
}

}  // namespace tutti
