#include "tutti/comm/all_reduce_bench.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "tutti/base/bf16.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/spread.hpp"
#include "tutti/comm/reduced_buffer.hpp"

namespace tutti {
namespace {

/// Elements after which the values repeat: a prime, so that a misplaced chunk or cache line shows.
constexpr std::size_t period = 1021;
/// Beyond it, sums of values below `period` are no longer exact in f32 (24 bits).
constexpr int most_ranks = (1 << 24) / static_cast<int>(period);

/// What a rank gives, and what must come out.
class Pattern {
  public:
    Pattern(int rank, int ranks, bool compressed) : given_(period), sum_(period) {
        const auto sent = [&](float x) { return compressed ? float_of_bf16(bf16_bits(x)) : x; };
        for (std::size_t i = 0; i < period; ++i) {
            given_[i] = value(rank, i);
            for (int other = 0; other < ranks; ++other) sum_[i] += sent(value(other, i));
            sum_[i] = sent(sum_[i]);
        }
    }

    void fill(std::span<float> buffer) const {
        for (std::size_t first = 0; first < buffer.size(); first += period)
            std::copy_n(given_.begin(), std::min(period, buffer.size() - first), buffer.begin() + at(first));
    }
    /// The first wrong element, or buffer.size().
    std::size_t first_wrong(std::span<const float> buffer) const {
        for (std::size_t first = 0; first < buffer.size(); first += period) {
            const std::size_t count = std::min(period, buffer.size() - first);
            const auto begin = buffer.begin() + at(first);
            const auto [wrong, expected] = std::mismatch(begin, begin + at(count), sum_.begin());
            if (wrong != begin + at(count)) return first + static_cast<std::size_t>(wrong - begin);
        }
        return buffer.size();
    }
    float sum(std::size_t element) const { return sum_[element % period]; }

  private:
    static float value(int rank, std::size_t element) {
        return static_cast<float>((element * 7 + static_cast<std::size_t>(rank) * 13) % period);
    }
    static std::ptrdiff_t at(std::size_t element) { return static_cast<std::ptrdiff_t>(element); }

    std::vector<float> given_, sum_;
};

template <class Call>
double seconds_of(const Call& call) {
    const auto before = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

int iterations_for(const AllReduceBench& bench, std::uint64_t bytes) {
    if (bench.iterations > 0) return bench.iterations;
    constexpr std::uint64_t traffic = 256 << 20;
    return static_cast<int>(std::clamp<std::uint64_t>(traffic / bytes, 10, 500));
}

void check_result(Communicator& communicator, const Pattern& pattern, std::span<const float> buffer) {
    const std::size_t wrong = pattern.first_wrong(buffer);
    Failure mine;
    if (wrong < buffer.size())
        mine = {ExitCode::failed,
                "the all-reduce of " + std::to_string(buffer.size_bytes()) + " bytes is wrong: element " +
                    std::to_string(wrong) + " is " + std::to_string(buffer[wrong]) + ", not " +
                    std::to_string(pattern.sum(wrong)) + ", on rank " + std::to_string(communicator.rank()) +
                    "; do not train on this machine before the cause is found"};
    // One number decides; the texts are only exchanged when there is something to say.
    std::int64_t bad = wrong < buffer.size() ? 1 : 0;
    communicator.all_reduce(view_of(std::span(&bad, 1)), ReduceOp::max).wait();
    if (bad != 0) agree(communicator, mine, "checking the sums");
}

void stop_together(Communicator& communicator, const AllReduceBench& bench) {
    std::int64_t stop = bench.stop && bench.stop() ? 1 : 0;
    communicator.all_reduce(view_of(std::span(&stop, 1)), ReduceOp::max).wait();
    if (stop != 0)
        throw AgreedError(ExitCode::failed,
                          "the measurement was interrupted by a signal; no file was written");
}

AllReduceRow measure(Communicator& communicator, Communicator& control, const AllReduceBench& bench,
                     const Pattern& pattern, ReducedBuffer& reduced, std::size_t count) {
    const std::span<float> buffer = reduced.host(count);
    const int iterations = iterations_for(bench, buffer.size_bytes());
    std::vector<double> own, bare;
    const auto time_own = [&] {
        pattern.fill(buffer);
        const TensorView view = reduced.take(count);
        control.barrier();
        own.push_back(seconds_of([&] { communicator.all_reduce(view, ReduceOp::sum).wait(); }));
        reduced.give(count);
        check_result(control, pattern, buffer);
    };
    const auto time_bare = [&] {
        pattern.fill(buffer);
        control.barrier();
        bare.push_back(seconds_of([&] { bench.bare(buffer); }));
    };
    for (int i = 0; i < bench.warmup + iterations; ++i) {
        stop_together(control, bench);
        if (i == bench.warmup) {
            own.clear();
            bare.clear();
        }
        // Whoever comes first finds other caches than who comes second.
        if (!bench.bare) {
            time_own();
        } else if (i % 2 == 0) {
            time_own();
            time_bare();
        } else {
            time_bare();
            time_own();
        }
    }
    control.all_reduce(view_of(std::span(own)), ReduceOp::max).wait();
    if (!bench.bare) return {.bytes = buffer.size_bytes(), .iterations = iterations, .time = spread_of(own)};
    control.all_reduce(view_of(std::span(bare)), ReduceOp::max).wait();
    std::vector<double> ratios(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) ratios[i] = own[i] / bare[i];
    return {buffer.size_bytes(), iterations, spread_of(own), spread_of(bare), median(ratios)};
}

}  // namespace

std::vector<AllReduceRow> bench_all_reduce(Communicator& communicator, const AllReduceBench& bench) {
    if (bench.sizes.empty() || *std::min_element(bench.sizes.begin(), bench.sizes.end()) == 0)
        throw UsageError("an all-reduce of 0 bytes cannot be measured", "measure sizes of at least 4 bytes");
    if (bench.iterations < 0 || bench.warmup < 0)
        throw UsageError("the number of iterations is negative", "give at least 1 iteration");
    if (communicator.size() > most_ranks)
        throw UsageError("sums of " + std::to_string(communicator.size()) + " ranks are not exact in f32",
                         "measure up to " + std::to_string(most_ranks) + " ranks");
    const Pattern pattern(communicator.rank(), communicator.size(), bench.compressed);
    Communicator& control = bench.control ? *bench.control : communicator;
    const auto floats = [](std::uint64_t bytes) { return (bytes + sizeof(float) - 1) / sizeof(float); };
    ReducedBuffer reduced(communicator, control, bench.device, floats(std::ranges::max(bench.sizes)),
                          "measure smaller sizes");
    std::vector<AllReduceRow> rows;
    for (const std::uint64_t bytes : bench.sizes) {
        rows.push_back(measure(communicator, control, bench, pattern, reduced, floats(bytes)));
        if (bench.done) bench.done(rows.back());
    }
    return rows;
}

std::vector<CostSample> cost_samples(std::span<const AllReduceRow> rows) {
    std::vector<CostSample> samples;
    for (const AllReduceRow& row : rows) samples.push_back({static_cast<double>(row.bytes), row.time.median});
    return samples;
}

CostModel fit_cost(std::span<const AllReduceRow> rows, int ranks) {
    return ranks == 1 ? CostModel() : fit_cost(cost_samples(rows));
}

}  // namespace tutti
