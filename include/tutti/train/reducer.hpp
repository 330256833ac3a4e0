#pragma once
// Sums the gradients of all ranks, bucket by bucket.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/shard_plan.hpp"
#include "tutti/train/step_timeline.hpp"

namespace tutti {

/// Buckets are views of the gradient arena; they are issued in one order on every rank, each as soon as its
/// last gradient (and those of all buckets before it in that order) is ready. Between ready() of a bucket's
/// last parameter and its sums (finish(), finish_for()) nobody else may touch its slice. The sums do not
/// depend on the order. One thread.
class Reducer {
  public:
    /// arena: the whole gradient arena, 1-D; it and the communicator must outlive the reducer.
    /// With shards, this rank gets the sums of what it owns only (reduce-scatter); the rest of the arena then
    /// holds no defined values.
    Reducer(Communicator& communicator, const TensorView& arena, std::vector<Bucket> buckets,
            std::optional<ShardPlan> shards = std::nullopt);

    const std::vector<Bucket>& buckets() const { return buckets_; }
    /// Another plan over the same parameters, the same on every rank. While nothing is pending(). Not with
    /// shards: they follow the buckets. order: the numbers of the buckets as they are to be issued; a bucket
    /// that is there k times goes in k nearly equal pieces, which others may overtake. Empty: the plan's own
    /// order.
    void replan(std::vector<Bucket> buckets, std::vector<std::size_t> order = {});
    std::span<const std::size_t> issue_order() const { return order_; }
    /// How often it was called: recorded steps hold the transfers of one plan.
    std::uint64_t plans() const { return plans_; }
    /// Forgets what became ready and was issued in a recording that failed.
    void forget_step() {
        use(buckets_, order_);
        ready_order_.clear();
    }
    /// From the next step on, when parameters and buckets were ready, issued and done is written there; null:
    /// nowhere. begin_step must have been told the number of buckets.
    void record(StepRecorder* recorder) { recorder_ = recorder; }

    /// The gradient of this parameter (arena order) is final. Each parameter once a step, in any order.
    void ready(std::size_t parameter);
    /// The parameters in the order in which they became ready in this step, or the last one after finish().
    std::span<const std::size_t> ready_order() const { return ready_order_; }
    /// Lets pending transfers go on, without waiting. Cheap when none is pending.
    void poll();
    /// Waits for all buckets; the arena then holds the sums (with shards, of what is owned). Every parameter
    /// must be ready. Throws PeerError that names the bucket. `summed`, if any, is called with the number of
    /// every bucket in the order of issue as soon as its slice holds the sums, while others may be under way;
    /// it may call poll(), and touch that slice.
    using BucketSummed = std::function<void(std::size_t bucket)>;
    void finish(const BucketSummed& summed = {});
    /// The same for as many buckets as the parameters [first, last) need: those that hold them, and those
    /// issued before these. Others stay pending; finish() or the next finish_for() goes on with them.
    void finish_for(std::size_t first, std::size_t last, const BucketSummed& summed);
    /// With shards, while nothing is pending: from the next step on ready() only takes note, and all buckets
    /// are issued at the end, by finish() or update().
    void issue_at_end(bool at_end) { at_end_ = at_end; }
    /// Instead of finish(), where they are: `use` is called with ranges of the arena, which together are what
    /// is owned, as soon as the gradients there are sums, and updates the same elements of `parameters` (an
    /// arena of the same layout), of which every rank then has all. See Communicator::UseSums.
    using UseSums = std::function<void(const ArenaRange& range)>;
    void update(const TensorView& parameters, const UseSums& use);
    /// Whether finish_for() would have nothing to do.
    bool is_finished(std::size_t first, std::size_t last) const;
    /// Whether the step has begun (a parameter is ready) and not all of its buckets are finished.
    bool pending() const { return begun_; }

  private:
    /// A transfer: a bucket or a piece of one.
    struct Piece {
        std::size_t bucket = 0;
        std::int64_t offset = 0, count = 0;
        bool first = true, last = true;  // of its bucket
        bool between = false;            // pieces of a bucket, this one's or another's, are on both sides
        Work work{};
    };

    void issue();
    /// A piece whose gradients are ready; start(piece) gives its transfer.
    template <class Start>
    void issue(Piece& piece, const Start& start);
    Work start(const Piece& piece);
    void cut_into_pieces();
    void use(std::vector<Bucket> buckets, std::vector<std::size_t> order);
    void expect_gradients();
    void note_done();
    /// Where the buckets of these parameters end in pieces_.
    std::size_t end_of(std::size_t first, std::size_t last) const;
    void finish_before(std::size_t end, const BucketSummed& summed);
    template <class Call>
    auto naming_bucket(Piece& piece, const Call& call);

    Communicator& communicator_;
    TensorView arena_;
    std::optional<ShardPlan> shards_;
    StepRecorder* recorder_ = nullptr;
    std::vector<Bucket> buckets_;
    std::vector<std::size_t> bucket_of_;  // by parameter
    std::vector<std::size_t> waiting_;    // by bucket: gradients still to come
    std::vector<std::size_t> order_;      // buckets as they are issued
    std::vector<Piece> pieces_;           // the same places
    std::vector<std::size_t> place_;      // by bucket, of its last piece
    std::vector<std::size_t> ready_order_;
    std::uint64_t plans_ = 0;
    // Places in pieces_: what is before them is issued, has its sums, is finished.
    std::size_t next_ = 0, done_ = 0, finished_ = 0;
    bool begun_ = false;
    bool at_end_ = false;
    bool updating_ = false;  // within transfers, which call for computations that may offer progress
};

}  // namespace tutti
