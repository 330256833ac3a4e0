#pragma once
// The schedule across steps as a model: buckets that are on the network while the next step's forward runs.

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/train/bucket_plan.hpp"

namespace tutti {

/// A layer's forward: its parameters [first, last) in arena order (none: first == last), and its seconds.
struct LayerForward {
    std::size_t first = 0, last = 0;
    double seconds = 0;
};

/// What one step's computation does to the schedule. Times in seconds.
struct AcrossTiming {
    std::vector<double> ready;         ///< by parameter, after the beginning of backward
    double backward_end = 0;           ///< likewise
    double between = 0;                ///< from there to the first layer's forward: the step's end, data
    std::vector<LayerForward> layers;  ///< in the order of forward
    double loss = 0;                   ///< from the last layer's end to the beginning of backward
    double update_per_element = 0;     ///< of the optimizer
    double latency = 0;                ///< CostModel::latency: of a transfer behind what it occupies
    /// Processor time that a transfer takes from the computation beside it (CostModel::taken).
    double taken_per_transfer = 0, taken_per_element = 0;
    /// What each piece but one adds to the time of a transfer that is cut. Infinite: none may be cut.
    double per_piece = std::numeric_limits<double>::infinity();
};

/// The latency and the processor's part that a cost model knows, for elements of so many bytes.
AcrossTiming with_costs(AcrossTiming timing, const CostModel& cost, std::size_t element_bytes);

/// AcrossTiming::per_piece: the seconds of an empty transfer, or infinite where bits would depend on the cut.
double piece_cost(const Communicator& gradients, double empty_transfer);

/// An order that was chosen elsewhere as it may be used here: where bits would depend on the cut, every
/// bucket in one transfer, at the place of its last piece.
std::vector<std::size_t> order_for(const Communicator& gradients, std::vector<std::size_t> order);

/// What each bucket's transfer keeps the next one waiting, in seconds.
std::vector<double> transfer_seconds(std::span<const Bucket> buckets, const BucketTiming& timing);

/// List scheduling (Graham, "Bounds on multiprocessing timing anomalies", 1969) on one link: whenever it is
/// free it takes, of the buckets that are ready, the one that the next forward needs first, which is the one
/// furthest behind in the arena. By bucket: ready, seconds of a piece, and how many pieces it goes in (empty:
/// each in one), between which others overtake it. Returns the numbers of the buckets, each as often as it
/// has pieces, or once where nothing comes between them. Pure.
std::vector<std::size_t> first_needed_first(std::span<const double> ready, std::span<const double> seconds,
                                            std::span<const std::size_t> pieces = {});

/// From the beginning of one backward to the next, step after step: one transfer after the other in this
/// order, each as soon as the ones before it and its gradients allow, a bucket that the order names k times
/// in k equal pieces (Reducer::replan); every layer's forward waits for the sums of its buckets and of those
/// issued before them, and updates them. While a transfer is under way it takes its processor time evenly
/// from what is computed, as for finish_time() and stretched() (bucket_plan.hpp). At the end of a forward
/// nothing is left on the network, so every step is like the one before it. Pure.
double step_across(std::span<const Bucket> buckets, std::span<const std::size_t> order,
                   std::span<const double> seconds, const AcrossTiming& timing);

/// The same where every step waits for its own transfers, in the plan's order, and updates each bucket while
/// later ones are on the network. Pure.
double step_within(std::span<const Bucket> buckets, std::span<const double> seconds,
                   const AcrossTiming& timing);

/// The better of the plan's own order (on a tie) and first_needed_first, no bucket in pieces. Pure.
std::vector<std::size_t> whole_order(std::span<const Bucket> buckets, std::span<const double> seconds,
                                     const AcrossTiming& timing);

/// whole_order, or, where transfers may be cut and that saves 1 % of the step (the model knows less exactly
/// what pieces cost), first_needed_first with large buckets in pieces of the best of several sizes. A large
/// bucket that is ready early and needed late (the first fully connected layer behind convolutions) would
/// else hold up those that are needed early: what ByteScheduler (Peng et al., SOSP 2019) cuts tensors for.
/// Pure.
std::vector<std::size_t> issue_order(std::span<const Bucket> buckets, std::span<const double> seconds,
                                     const AcrossTiming& timing);

/// Throws DataError unless it is empty or holds each of the numbers 0 to buckets − 1, and no others.
void check_issue_order(std::span<const std::size_t> order, std::size_t buckets);

/// A plan and how long its steps are to last.
struct AcrossPlan {
    std::vector<Bucket> buckets;
    std::vector<std::size_t> order;
    double seconds = 0;
};
/// Begins with a bucket per layer, and joins those neighbours whose joining makes the step shortest, as long
/// as it becomes shorter; and the same from buckets of about equal sizes, 32 to 4 of them, because joining
/// looks at whole transfers. At the beginning and the end of each buckets may be cut (issue_order). The best
/// of these. Pure; O(L³) for L layers, the more the more are joined. The fastest of the runs on one core: for
/// 107 layers (resnet50) 2 to 18 ms where computation outlasts transfers, 24 to 35 where these take several
/// times as long; for 77 (vit-b) 1 and 24.
AcrossPlan plan_across_steps(std::span<const ParameterSlice> parameters, const std::vector<bool>& layer_ends,
                             const CostModel& cost, std::size_t element_bytes, const AcrossTiming& timing);

/// A step that no plan and order beats: all gradients have to be sent one after the other, from when the
/// first is ready to when the last layer whose parameters they are has to begin, at best in transfers of the
/// size that is cheapest per byte (CostModel::least_seconds); or the computation alone. least_of_all: as for
/// StepMeasurement::attainable.
double attainable_across(std::span<const ParameterSlice> parameters, const BucketTiming& cost,
                         const AcrossTiming& timing, std::optional<double> least_of_all = {});

/// Of `elements` of an arena's `all`, in any number of transfers: seconds by the cost model, of all of them
/// least_of_all where it is there, and of fewer at most that.
double least_to_send(std::int64_t elements, std::int64_t all, const BucketTiming& cost,
                     std::optional<double> least_of_all);

/// The parameters of each layer of a graph, and the seconds that a profile gives their forward.
std::vector<LayerForward> layers_of(const Graph& graph, std::span<const double> seconds);
/// The same: how many elements of parameters each layer has, in the order of forward, and the parameters.
/// Throws DataError where they do not belong together.
std::vector<LayerForward> layers_of(std::span<const std::int64_t> elements,
                                    std::span<const ParameterSlice> parameters,
                                    std::span<const double> seconds);

}  // namespace tutti
