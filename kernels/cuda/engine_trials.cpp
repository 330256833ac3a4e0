#include "engine_trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
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
constexpr double never = std::numeric_limits<double>::infinity();

std::size_t bytes_to_flush() {
    int device = 0, cache = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
    return flushed_caches * static_cast<std::size_t>(cache);
}

}  // namespace

bool clearly_faster(double seconds, double first) {
    return seconds < 0.97 * first && first - seconds >= 1e-6;
}

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

double EngineTrials::seconds_of(std::size_t engine, const Problem& problem, Memory& memory) {
    check(cudaMemsetAsync(memory.flushed, memory.fill++ & 1, flushed_bytes_, stream_), "cudaMemsetAsync");
    start_.record(stream_);
    bool refused = false;
    try {
        try {
            problem.run(engine, memory.data);
        } catch (const GpuError&) {
            refused = true;
        }
        // Also of a refusal: what the GPU died of is this engine's.
        end_.record(stream_);
        end_.synchronize();
    } catch (const GpuError& error) {
        throw RunError(
            fmt::format("{}: the GPU failed while engine {} of those that the library names was "
                        "tried: {}; run.autotune: false takes the first",
                        problem.name, engine + 1, error.what()));
    }
    return refused ? never : end_.since(start_);
}

std::vector<double> EngineTrials::shortest_of(const std::vector<std::size_t>& engines, const Problem& problem,
                                              Memory& memory) {
    std::vector<double> shortest(engines.size(), 0);
    // The first round does not count: engines are loaded when they first run.
    for (int round = 0; round <= rounds; ++round)
        for (std::size_t i = 0; i < engines.size(); ++i) {
            if (shortest[i] == never) continue;
            const double seconds = seconds_of(engines[i], problem, memory);
            shortest[i] = round <= 1 || seconds == never ? seconds : std::min(shortest[i], seconds);
        }
    return shortest;
}

std::size_t EngineTrials::fastest(const Problem& problem) {
    const double begin = steady_seconds();
    const auto allocated = memory_for_trials(with_padding(problem.memory) + flushed_bytes_);
    if (!allocated) return 0;
    Memory memory{allocated->data(), allocated->data() + with_padding(problem.memory)};
    std::vector<std::size_t> engines(problem.engines);
    std::iota(engines.begin(), engines.end(), std::size_t{0});
    std::vector<double> shortest = shortest_of(engines, problem, memory);
    const auto least = std::min_element(shortest.begin(), shortest.end());
    auto taken = static_cast<std::size_t>(least - shortest.begin());
    double saved = 0;
    if (shortest.front() != never) {
        // The best of many has had luck, too: it shows again beside the first alone.
        if (clearly_faster(*least, shortest.front())) {
            shortest = shortest_of({0, taken}, problem, memory);
            saved = shortest.front() - shortest.back();
        }
        if (!clearly_faster(shortest.front() - saved, shortest.front())) taken = 0;
    }
    ++counts_.problems;
    if (taken != 0) {
        ++counts_.others;
        counts_.saved += saved;
    }
    counts_.seconds += steady_seconds() - begin;
    return taken;
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
