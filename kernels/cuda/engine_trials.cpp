#include "engine_trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "gpu_error.hpp"
#include "tutti/base/steady_seconds.hpp"

namespace tutti::cuda {
namespace {

/// Memory that is filled before a run, as a multiple of the second-level cache: by its bytes some 50 µs on an
/// H200 (unmeasured), in which the host issues the run and the events around it, so that these are not what
/// is timed.
constexpr std::size_t flushed_caches = 4;
constexpr int rounds = 5;
/// Another engine must be faster by more than measurements scatter: else runs would differ in their engines,
/// and so in their rounding, for nothing.
constexpr double clearly_faster = 0.97;

constexpr double never = std::numeric_limits<double>::infinity();

std::size_t bytes_to_flush() {
    int device = 0, cache = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
    return flushed_caches * static_cast<std::size_t>(cache);
}

}  // namespace

EngineTrials::EngineTrials(Stream stream, std::function<void(const std::string&)> notice)
    : stream_(stream), notice_(std::move(notice)), flushed_bytes_(bytes_to_flush()) {}

std::unique_ptr<DeviceMemory> EngineTrials::memory_for_trials(std::size_t bytes) {
    try {
        return std::make_unique<DeviceMemory>(bytes, "trials of engines");
    } catch (const GpuError& error) {
        if (!std::exchange(lacks_memory_, true))
            notice_(std::string("some engines are the libraries' first choice, not measured: ") +
                    error.what());
        return nullptr;
    }
}

std::size_t EngineTrials::fastest(std::size_t engines, std::size_t memory, const Run& run) {
    const double begin = steady_seconds();
    const auto allocated = memory_for_trials(with_padding(memory) + flushed_bytes_);
    if (!allocated) return 0;
    std::byte* const flushed = allocated->data() + with_padding(memory);
    std::vector<double> shortest(engines, never);
    Event start(EventTiming::on), end(EventTiming::on);
    // The first round does not count: engines are loaded when they first run.
    for (int round = 0; round <= rounds; ++round) {
        for (std::size_t engine = 0; engine < engines; ++engine) {
            if (round > 0 && shortest[engine] == never) continue;
            check(cudaMemsetAsync(flushed, round & 1, flushed_bytes_, stream_), "cudaMemsetAsync");
            start.record(stream_);
            try {
                run(engine, allocated->data());
            } catch (const GpuError&) {
                shortest[engine] = never;
                continue;
            }
            end.record(stream_);
            end.synchronize();
            const double seconds = end.since(start);
            shortest[engine] = round <= 1 ? seconds : std::min(shortest[engine], seconds);
        }
    }
    const auto least = std::min_element(shortest.begin(), shortest.end());
    const bool takes_it = *least < clearly_faster * shortest.front();
    ++counts_.problems;
    if (takes_it) {
        ++counts_.others;
        if (shortest.front() != never) counts_.saved += shortest.front() - *least;
    }
    counts_.seconds += steady_seconds() - begin;
    return takes_it ? static_cast<std::size_t>(least - shortest.begin()) : 0;
}

void EngineTrials::tell_when_over() {
    if (counts_ != std::exchange(seen_, counts_) || counts_ == std::exchange(told_, counts_)) return;
    const std::string found = counts_.others == 0 ? "the library's first choice stays everywhere"
                                                  : fmt::format(
                                                        "{} have another than the library's first choice, "
                                                        "which saves {:.2f} ms where each runs once",
                                                        counts_.others, 1e3 * counts_.saved);
    notice_(fmt::format("engines of {} products and convolutions were measured in {:.1f} s: {}",
                        counts_.problems, counts_.seconds, found));
}

}  // namespace tutti::cuda
