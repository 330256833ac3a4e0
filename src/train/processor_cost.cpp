#include "tutti/train/processor_cost.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

#include "tutti/comm/stop_vote.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// In which this thread could have run, but others did. 0 where Linux does not tell.
double seconds_given_away() {
    std::ifstream file("/proc/thread-self/schedstat");
    double on_the_core = 0, waiting = 0;
    return file >> on_the_core >> waiting ? waiting * 1e-9 : 0;
}

/// A computation in pieces, on memory that a core's own cache holds, as a layer's tiles do.
class Computation {
  public:
    Computation() : values_(65'536, 1.0F) {
        constexpr double wanted = 0.25e-3;
        double once = std::numeric_limits<double>::infinity();
        for (int i = 0; i < 10; ++i) {
            const auto begin = Clock::now();
            pass();
            once = std::min(once, seconds_since(begin));
        }
        passes_ = static_cast<int>(std::clamp(wanted / once, 1.0, 1e6));
        piece_seconds_ = passes_ * once;
    }
    void piece() {
        for (int i = 0; i < passes_; ++i) pass();
    }
    double piece_seconds() const { return piece_seconds_; }

  private:
    void pass() {
        for (float& value : values_) value = value * 0.5F + 0.5F;
        seen_ = values_[values_.size() / 2];
    }

    std::vector<float> values_;
    volatile float seen_ = 0;  // so that it is computed
    int passes_ = 1;
    double piece_seconds_ = 0;
};

double error_of(const ProcessorCost& cost, std::span<const ProcessorSample> samples) {
    double sum = 0;
    for (const ProcessorSample& sample : samples) {
        const double off =
            sample.transfers * cost.per_transfer + sample.bytes * cost.seconds_per_byte - sample.seconds;
        sum += off * off;
    }
    return sum;
}

}  // namespace

ProcessorCost fit_processor_cost(std::span<const ProcessorSample> samples) {
    double nn = 0, nb = 0, bb = 0, ns = 0, bs = 0;
    for (const ProcessorSample& sample : samples) {
        nn += sample.transfers * sample.transfers;
        nb += sample.transfers * sample.bytes;
        bb += sample.bytes * sample.bytes;
        ns += sample.transfers * sample.seconds;
        bs += sample.bytes * sample.seconds;
    }
    // With two numbers the least lies where both are free, or on a border.
    const double determinant = nn * bb - nb * nb;
    // Where samples cannot tell them apart it is the first: what grows with bytes is made much of.
    std::vector<ProcessorCost> candidates{{nn > 0 ? ns / nn : 0, 0}, {0, bb > 0 ? bs / bb : 0}};
    if (determinant > 1e-12 * nn * bb)
        candidates.push_back({(bb * ns - nb * bs) / determinant, (nn * bs - nb * ns) / determinant});
    ProcessorCost best;
    for (const ProcessorCost& one : candidates)
        if (one.per_transfer >= 0 && one.seconds_per_byte >= 0 &&
            error_of(one, samples) < error_of(best, samples))
            best = one;
    return best;
}

ProcessorCost scaled_to(const ProcessorCost& measured, std::span<const ProcessorSample> samples) {
    // The sum falls until the factors of samples that hold half of all that is expected are passed.
    std::vector<std::pair<double, double>> factors;  // and what is expected
    double expected = 0;
    for (const ProcessorSample& sample : samples) {
        const double taken =
            sample.transfers * measured.per_transfer + sample.bytes * measured.seconds_per_byte;
        if (!(taken > 0)) continue;
        factors.emplace_back(sample.seconds / taken, taken);
        expected += taken;
    }
    std::ranges::sort(factors);
    double factor = 1, passed = 0;
    for (const auto& [one, taken] : factors) {
        factor = one;
        passed += taken;
        if (passed >= expected / 2) break;
    }
    factor = std::clamp(factor, 0.5, 2.0);
    return {factor * measured.per_transfer, factor * measured.seconds_per_byte};
}

std::size_t large_transfer(std::size_t most, std::size_t small, const CostModel& cost) {
    constexpr double longest = 3e-3;
    const double alone = cost.occupied(0);
    std::size_t large = most;
    while (large / 2 >= 16 * small && cost.occupied(static_cast<double>(large)) - alone > longest) large /= 2;
    return large;
}

std::size_t processor_rounds(double seconds, double budget) {
    constexpr double most = 5;
    if (!(seconds > 0)) return static_cast<std::size_t>(most);
    return static_cast<std::size_t>(std::clamp((budget / seconds - 1) / 2, 0.0, most));
}

namespace {

/// Transfers beside a computation, all ranks together.
class TimedTransfers {
  public:
    TimedTransfers(Communicator& gradients, Communicator& control, Ops& ops, const TensorView& arena,
                   const CostModel& cost)
        : gradients_(gradients), control_(control), ops_(ops), arena_(arena), cost_(cost) {}

    /// Adds what so many transfers of so many bytes take, if there is time for a round. False: a signal has
    /// stopped the measurement on a rank.
    bool measure(std::size_t transfers, std::size_t bytes, double budget,
                 std::vector<ProcessorSample>& samples) {
        const std::size_t element = size_of(arena_.dtype), size = bytes / element * element;
        // Long enough for the transfers to end beside it, on every rank.
        const double expected =
            2 * (static_cast<double>(transfers) * cost_.occupied(static_cast<double>(size)) +
                 cost_.latency()) +
            1e-3;
        std::int64_t agreed[] = {
            std::llround(std::min(std::ceil(expected / computation_.piece_seconds()), 1e4)),
            static_cast<std::int64_t>(processor_rounds(expected, std::min(budget, left_)))};
        control_.all_reduce(view_of(std::span(agreed)), ReduceOp::max).wait();
        const auto pieces = static_cast<std::size_t>(agreed[0]);
        const std::int64_t rounds = agreed[1];
        if (rounds == 0) return true;
        left_ -= static_cast<double>(1 + 2 * rounds) * expected;
        // Sums of what was left there could grow beyond all bounds.
        ops_.fill(slice(0, transfers * size), 0.0);
        timed(transfers, size, pieces);  // connections and buffers are made by the first
        double alone = std::numeric_limits<double>::infinity(), beside = alone;
        for (std::int64_t i = 0; i < rounds; ++i) {
            if (stop_signal_of_any(control_) != 0) return false;
            alone = std::min(alone, timed(0, 0, pieces));
            beside = std::min(beside, timed(transfers, size, pieces));
        }
        double taken = std::max(beside - alone, 0.0);
        control_.all_reduce(view_of(std::span(&taken, 1)), ReduceOp::max).wait();
        samples.push_back({static_cast<double>(transfers), static_cast<double>(transfers * size), taken});
        return true;
    }

  private:
    TensorView slice(std::size_t number, std::size_t bytes) const {
        return {arena_.data + number * bytes,
                arena_.dtype,
                {static_cast<std::int64_t>(bytes / size_of(arena_.dtype))}};
    }

    /// Seconds of this rank's computation.
    double timed(std::size_t transfers, std::size_t bytes, std::size_t pieces) {
        std::vector<Work> works(transfers);
        std::size_t done = 0;
        control_.barrier();
        const double given_before = seconds_given_away();
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < transfers; ++i)
            works[i] = gradients_.all_reduce(slice(i, bytes), ReduceOp::sum);
        for (std::size_t i = 0; i < pieces; ++i) {
            computation_.piece();
            while (done < transfers && works[done].test()) ++done;
        }
        const double seconds = seconds_since(begin) - (seconds_given_away() - given_before);
        for (; done < transfers; ++done) works[done].wait();
        return seconds;
    }

    Communicator &gradients_, &control_;
    Ops& ops_;
    const TensorView arena_;
    const CostModel& cost_;
    Computation computation_;
    double left_ = processor_budget;
};

}  // namespace

ProcessorCost measure_processor_cost(Communicator& gradients, Communicator& control, Ops& ops,
                                     const TensorView& arena, const CostModel& cost) {
    constexpr std::size_t at_once = 8, small = 4096;
    if (gradients.size() < 2 || arena.bytes() < at_once * small) return {};
    const std::size_t large = large_transfer(arena.bytes(), small, cost);

    TimedTransfers transfers(gradients, control, ops, arena, cost);
    std::vector<ProcessorSample> samples;
    if (!transfers.measure(at_once, small, 0.4 * processor_budget, samples) ||
        !transfers.measure(1, large, processor_budget, samples))
        return {};
    return fit_processor_cost(samples);
}

}  // namespace tutti
