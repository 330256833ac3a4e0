#include "tutti/comm/cost_scaling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

double messages(double ranks, AllReduceShape shape) {
    return shape == AllReduceShape::ring ? 2 * (ranks - 1) : 2 * std::log2(ranks);
}

/// Times the buffer, on the busiest link.
double volume(double ranks, AllReduceShape shape) {
    return shape == AllReduceShape::ring ? 2 * (ranks - 1) / ranks : 2;
}

}  // namespace

const char* to_string(AllReduceShape shape) {
    return shape == AllReduceShape::ring ? "ring" : "tree";
}

EvenHosts even_hosts(int world, int most_each) {
    if (world < 1) throw UsageError(fmt::format("there is no job of {} ranks", world), "give at least 1");
    if (world == 1) return {};
    const auto hosts_of = [&](int ranks) { return std::max(2, 1 + (ranks - 1) / most_each); };
    const auto is_even = [&](int ranks) { return ranks == 1 || ranks % hosts_of(ranks) == 0; };
    const int hosts = hosts_of(world);
    if (is_even(world)) return {hosts, world / hosts};
    int fewer = world - 1, more = world + 1;
    while (!is_even(fewer)) --fewer;
    while (!is_even(more)) ++more;
    throw UsageError(
        fmt::format("{} ranks do not come out even on {} hosts: sums go host by host only where each "
                    "has as many ranks, at most {} as measured",
                    world, hosts, most_each),
        fmt::format("give {} or {}", fewer, more));
}

CostModel cost_on(const CostModel& measured, int measured_world, int world, AllReduceShape shape) {
    if (measured_world < 2)
        throw UsageError("an all-reduce of one rank tells nothing about links", "measure it on two or more");
    if (world < 1)
        throw UsageError("there is no all-reduce of " + std::to_string(world) + " ranks", "give at least 1");
    if (world == 1 || measured.pieces().empty()) return {};
    const double by_message = messages(world, shape) / messages(measured_world, shape);
    const double by_byte = volume(world, shape) / volume(measured_world, shape);
    const double nothing = measured.pieces().front().alpha;
    std::vector<CostPiece> pieces;
    for (const CostPiece& piece : measured.pieces())
        pieces.push_back({piece.from_bytes, by_message * nothing + by_byte * (piece.alpha - nothing),
                          by_byte * piece.seconds_per_byte});
    const ProcessorCost& processor = measured.processor();
    return CostModel(std::move(pieces))
        .with_latency(by_message * measured.latency())
        .with_processor({by_message * processor.per_transfer, by_byte * processor.seconds_per_byte});
}

}  // namespace tutti
