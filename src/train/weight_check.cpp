#include "weight_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "tutti/base/fingerprint.hpp"
#include "tutti/base/host_name.hpp"

namespace tutti {
namespace {

/// Every rank's numbers, by rank; the same count on every rank.
std::vector<std::vector<std::uint64_t>> all_gather(Communicator& communicator,
                                                   std::vector<std::uint64_t> mine) {
    const auto ranks = static_cast<std::size_t>(communicator.size());
    std::vector<std::uint64_t> all(mine.size() * ranks);
    const auto view = [](std::vector<std::uint64_t>& numbers) {
        return TensorView{reinterpret_cast<std::byte*>(numbers.data()), DType::i64,
                          Shape{static_cast<std::int64_t>(numbers.size())}};
    };
    communicator.all_gather(view(mine), view(all)).wait();
    std::vector<std::vector<std::uint64_t>> result;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size());
        result.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(mine.size()));
    }
    return result;
}

}  // namespace

WeightDifference find_difference(const std::vector<std::uint64_t>& of_ranks,
                                 const std::vector<std::vector<std::uint64_t>>& tensors) {
    WeightDifference result;
    for (std::size_t rank = 0; rank < of_ranks.size() && !result.majority; ++rank) {
        const auto alike = static_cast<std::size_t>(std::ranges::count(of_ranks, of_ranks[rank]));
        if (2 * alike <= of_ranks.size()) continue;
        result.reference = static_cast<int>(rank);
        result.majority = true;
    }
    const auto reference = static_cast<std::size_t>(result.reference);
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
        if (of_ranks[rank] == of_ranks[reference]) continue;
        const auto [first, unused] = std::ranges::mismatch(tensors[rank], tensors[reference]);
        result.ranks.push_back(
            {static_cast<int>(rank), static_cast<std::size_t>(first - tensors[rank].begin())});
    }
    return result;
}

WeightCheck::WeightCheck(const Graph& graph, Device& device, Communicator& control)
    : graph_(graph), device_(device), control_(control) {}

std::uint64_t WeightCheck::fingerprint_of(const TensorView& memory, std::uint64_t seed) {
    if (device_.kind() == "cpu") return fingerprint({memory.data, memory.bytes()}, seed);
    host_.resize(std::max(host_.size(), memory.bytes()));
    device_.copy_to_host(host_.data(), memory);
    return fingerprint({host_.data(), memory.bytes()}, seed);
}

void WeightCheck::verify(std::int64_t step) {
    if (control_.size() == 1) return;
    const TensorView all = graph_.all_parameters();
    const std::size_t element = size_of(all.dtype);
    std::uint64_t mine = 0;
    // Without the gaps between them, which mean nothing.
    for (const auto* parameters : {&graph_.parameters(), &graph_.frozen_parameters()})
        for (const Parameter& parameter : *parameters)
            mine = fingerprint_of({all.data + static_cast<std::size_t>(parameter.offset) * element, all.dtype,
                                   Shape{parameter.count}},
                                  mine);
    mine = fingerprint_of(graph_.buffer_arena(), mine);
    std::vector<std::uint64_t> of_ranks;
    for (const auto& one : all_gather(control_, {mine})) of_ranks.push_back(one.front());
    if (std::ranges::count(of_ranks, of_ranks.front()) != std::ssize(of_ranks))
        throw AgreedError(ExitCode::failed, describe(step, of_ranks));
    same_at_ = step;
}

std::string WeightCheck::describe(std::int64_t step, const std::vector<std::uint64_t>& of_ranks) {
    // As in files: under PyTorch's names, in the order of state_dict().
    const std::vector<NamedTensor> tensors = graph_.save();
    std::vector<std::uint64_t> mine;
    for (const NamedTensor& tensor : tensors) mine.push_back(fingerprint(tensor.bytes));
    const WeightDifference difference = find_difference(of_ranks, all_gather(control_, std::move(mine)));
    const std::vector<std::string> hosts = all_gather_text(control_, host_name());
    const auto name_of = [&](int rank) {
        return fmt::format("rank {} on {}", rank, hosts[static_cast<std::size_t>(rank)]);
    };

    constexpr std::size_t most_named = 4;
    std::string who;
    for (std::size_t i = 0; i < std::min(difference.ranks.size(), most_named); ++i) {
        const auto& [rank, tensor] = difference.ranks[i];
        who += (i == 0 ? "" : ", ") + name_of(rank) +
               (tensor < tensors.size() ? " (first in " + tensors[tensor].name + ")"
                                        : " (although each tensor, read once more, is the same)");
    }
    if (difference.ranks.size() > most_named)
        who += fmt::format(" and {} others", difference.ranks.size() - most_named);
    const std::size_t others = of_ranks.size() - difference.ranks.size();
    const std::string from = difference.majority
                                 ? fmt::format("the {} other ranks, which agree", others)
                                 : name_of(difference.reference) + (others > 1 ? " and those like it" : "");
    const std::string& suspect = hosts[static_cast<std::size_t>(difference.ranks.front().rank)];
    return fmt::format(
        "step {}: the ranks do not hold the same weights (distributed.verify_every): {} {} from {}; {}; a "
        "faulty processor, memory or network card, or another library or program on {} is likely: compare "
        "the hosts with trainer doctor, leave a faulty one out of the node list, and go on from {}",
        step, who, difference.ranks.size() == 1 ? "differs" : "differ", from,
        same_at_ ? fmt::format("they were the same at step {}", *same_at_)
                 : std::string("no check of this run came before"),
        difference.majority ? suspect : "one of these hosts",
        same_at_ ? fmt::format("a checkpoint of step {} or before (run.resume=FILE)", *same_at_)
                 : std::string("a checkpoint of an earlier run, or begin anew (run.resume=never)"));
}

}  // namespace tutti
