#include "all_reduce_check.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "tutti/base/random.hpp"
#include "tutti/comm/reduced_buffer.hpp"

namespace tutti::doctor {
namespace {

constexpr std::size_t few = 10;
constexpr std::size_t many = 16'000'000;  // 64 MB

void check_few(Communicator& communicator, Communicator& world, ReducedBuffer& buffer,
               AllReduceFacts& facts) {
    const auto ranks = static_cast<std::size_t>(world.size());
    const RandomStream random(0, RandomPlace::initial_weights, static_cast<std::uint64_t>(world.rank()), 0);
    const std::span<float> mine = buffer.host(few);
    for (std::size_t i = 0; i < few; ++i) mine[i] = static_cast<float>(random.uniform(i) - 0.5);
    std::vector<float> all(ranks * few);
    world.all_gather(view_of(mine), view_of(std::span(all))).wait();
    communicator.all_reduce(buffer.take(few), ReduceOp::sum).wait();
    buffer.give(few);

    for (std::size_t i = 0; i < few; ++i) {
        double exact = 0, magnitude = 0;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            exact += static_cast<double>(all[rank * few + i]);
            magnitude += std::abs(static_cast<double>(all[rank * few + i]));
        }
        const double error = std::abs(static_cast<double>(mine[i]) - exact);
        // All ranks judge alike, and rank 0 says it; a maximum may lose what is no number.
        facts.largest_error = std::max(facts.largest_error,
                                       std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
        facts.allowed_error = std::max(facts.allowed_error,
                                       2 * static_cast<double>(ranks - 1) * std::ldexp(1.0, -24) * magnitude);
    }
    std::array<double, 2> worst{facts.largest_error, facts.allowed_error};
    world.all_reduce(view_of(std::span(worst)), ReduceOp::max).wait();
    facts.largest_error = worst[0];
    facts.allowed_error = worst[1];
}

void check_many(Communicator& communicator, Communicator& world, ReducedBuffer& reduced,
                AllReduceFacts& facts) {
    const std::span<float> buffer = reduced.host(many);
    // Whole numbers, whose sums fp32 holds exactly (below 2²⁴) on 200,000 ranks, too.
    constexpr std::int64_t cycle = 8;
    const auto part_of = [](std::int64_t rank) { return rank % cycle + 1; };
    std::int64_t parts = 0;
    for (std::int64_t rank = 0; rank < world.size(); ++rank) parts += part_of(rank);
    const auto expected_of = [parts](std::size_t i, std::int64_t ranks) {
        return static_cast<float>(parts + ranks * static_cast<std::int64_t>(i % 64));
    };
    for (std::size_t i = 0; i < many; ++i)
        buffer[i] = static_cast<float>(part_of(world.rank()) + static_cast<std::int64_t>(i % 64));
    const TensorView view = reduced.take(many);
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    communicator.all_reduce(view, ReduceOp::sum).wait();
    facts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    reduced.give(many);
    facts.bytes = static_cast<std::int64_t>(many * sizeof(float));
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < many; ++i)
        if (buffer[i] != expected_of(i, world.size())) ++wrong;
    world.all_reduce(view_of(std::span(&wrong, 1)), ReduceOp::sum).wait();
    facts.wrong += wrong;
}

}  // namespace

AllReduceFacts check_all_reduce(Communicator& communicator, Communicator& control, Device* device) {
    AllReduceFacts facts;
    facts.backend = communicator.backend();
    facts.path = communicator.all_reduce_path();
    ReducedBuffer buffer(communicator, control, device, many, "let the ranks have more memory (ulimit -v)");
    check_few(communicator, control, buffer, facts);
    if (device) check_many(communicator, control, buffer, facts);
    check_many(communicator, control, buffer, facts);
    return facts;
}

}  // namespace tutti::doctor
