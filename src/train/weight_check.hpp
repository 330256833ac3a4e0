#pragma once
// Whether all ranks hold the same weights (distributed.verify_every).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/device/device.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {

/// What a check found: the ranks that differ, and from whom. Pure.
struct WeightDifference {
    struct Rank {
        int rank = 0;
        std::size_t tensor = 0;  ///< the first one that differs; their number where a second look found none
    };
    std::vector<Rank> ranks;
    int reference = 0;      ///< a rank that they are compared with
    bool majority = false;  ///< whether more than half of the ranks hold what `reference` holds
};

/// of_ranks: a number for all weights, by rank. tensors: by rank, a number for each tensor. The reference is
/// the lowest rank of the majority, or rank 0 where there is none.
WeightDifference find_difference(const std::vector<std::uint64_t>& of_ranks,
                                 const std::vector<std::vector<std::uint64_t>>& tensors);

/// Compares the bits of all parameters and buffers (running statistics) among the ranks: one pass over them,
/// and a collective of 8 bytes. Nothing else that a training keeps is looked at; a difference in the
/// optimizer's state is one of the weights after the next update. From a device the weights are first copied
/// to the host. Graph, device and communicator must outlive it; every rank calls the same methods.
class WeightCheck {
  public:
    WeightCheck(const Graph& graph, Device& device, Communicator& control);

    /// After `step` updates, none of which is under way. Throws the same AgreedError (failed) on every rank
    /// if they differ: step, ranks and hosts, first tensor by PyTorch's name, and the last check that found
    /// them the same.
    void verify(std::int64_t step);

  private:
    std::uint64_t fingerprint_of(const TensorView& memory, std::uint64_t seed);
    std::string describe(std::int64_t step, const std::vector<std::uint64_t>& of_ranks);

    const Graph& graph_;
    Device& device_;
    Communicator& control_;
    std::vector<std::byte> host_;  // what is copied from a device, one tensor at a time
    std::optional<std::int64_t> same_at_;
};

}  // namespace tutti
