#pragma once
// Whether backward finished the gradients in the order in which the arena holds them.

#include <cstddef>
#include <span>
#include <string>

#include "tutti/comm/communicator.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {

/// PyTorch cuts its buckets anew in the order that rank 0 observed in the first backward. Here the arena is
/// laid out in the order that the graph plans to finish in, so cutting anew would change nothing, as long as
/// the observation agrees: this compares every rank's with rank 0's, and rank 0's with the plan. `order`:
/// parameters as they became ready. Returns nothing, or what differs, for a warning: sums stay right (a
/// bucket goes out when its last gradient is ready), but they go out later than planned. Collective; the same
/// text on every rank.
std::string ready_order_difference(Communicator& communicator, const Graph& graph,
                                   std::span<const std::size_t> order);

}  // namespace tutti
