#pragma once
// Sums the gradients of all ranks, bucket by bucket.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/step_timeline.hpp"

namespace tutti {

/// Buckets are views of the gradient arena; they are issued in the plan's order on every rank, each as soon
/// as its last gradient (and those of all buckets before it) is ready. Between ready() of a bucket's last
/// parameter and the return of finish() nobody else may touch its slice. One thread.
class Reducer {
  public:
    /// arena: the whole gradient arena, 1-D; it and the communicator must outlive the reducer.
    Reducer(Communicator& communicator, const TensorView& arena, std::vector<Bucket> buckets);

    const std::vector<Bucket>& buckets() const { return buckets_; }
    /// Another plan over the same parameters, the same on every rank. Between finish() and the next ready().
    void replan(std::vector<Bucket> buckets);
    /// From the next step on, when parameters and buckets were ready, issued and done is written there; null:
    /// nowhere. begin_step must have been told the number of buckets.
    void record(StepRecorder* recorder) { recorder_ = recorder; }

    /// The gradient of this parameter (arena order) is final. Each parameter once a step, in any order.
    void ready(std::size_t parameter);
    /// The parameters in the order in which they became ready in this step, or the last one after finish().
    std::span<const std::size_t> ready_order() const { return ready_order_; }
    /// Lets pending transfers go on, without waiting. Cheap when none is pending.
    void poll();
    /// Waits for all buckets; the arena then holds the sums. Every parameter must be ready. Throws PeerError
    /// that names the bucket. `summed`, if any, is called with every bucket in their order as soon as its
    /// slice holds the sums, while others may be under way; it may call poll(), and touch that slice.
    using BucketSummed = std::function<void(const Bucket&)>;
    void finish(const BucketSummed& summed = {});

  private:
    void issue();
    void note_done(std::size_t bucket);
    template <class Call>
    auto naming_bucket(std::size_t bucket, const Call& call);

    Communicator& communicator_;
    TensorView arena_;
    StepRecorder* recorder_ = nullptr;
    std::vector<Bucket> buckets_;
    std::vector<std::size_t> bucket_of_;  // by parameter
    std::vector<std::size_t> waiting_;    // by bucket: gradients still to come
    std::vector<Work> works_;
    std::vector<std::size_t> ready_order_;
    std::size_t next_ = 0;  // the first bucket not issued
    std::size_t done_ = 0;  // the buckets before this one are done
};

}  // namespace tutti
