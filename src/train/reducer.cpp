#include "tutti/train/reducer.hpp"

#include <cassert>

namespace tutti {

Reducer::Reducer(Communicator& communicator, const TensorView& arena, std::vector<Bucket> buckets,
                 std::optional<ShardPlan> shards)
    : communicator_(communicator), arena_(arena), shards_(std::move(shards)) {
    assert(!shards_ || shards_->owned.size() == buckets.size());
    use(std::move(buckets));
}

void Reducer::replan(std::vector<Bucket> buckets) {
    assert(next_ == 0 && done_ == 0 && !shards_);
    ++plans_;
    use(std::move(buckets));
}

void Reducer::use(std::vector<Bucket> buckets) {
    buckets_ = std::move(buckets);
    works_ = std::vector<Work>(buckets_.size());
    next_ = done_ = 0;
    waiting_.clear();
    bucket_of_.clear();
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        waiting_.push_back(buckets_[b].last - buckets_[b].first + 1);
        bucket_of_.insert(bucket_of_.end(), waiting_.back(), b);
    }
    ready_order_.reserve(bucket_of_.size());
}

void Reducer::ready(std::size_t parameter) {
    const std::size_t bucket = bucket_of_[parameter];
    assert(waiting_[bucket] > 0);
    --waiting_[bucket];
    if (ready_order_.size() == bucket_of_.size()) ready_order_.clear();
    ready_order_.push_back(parameter);
    if (recorder_) {
        const double now = recorder_->now();
        recorder_->timeline().parameter_ready[parameter] = now;
        if (waiting_[bucket] == 0) recorder_->timeline().buckets[bucket].ready = now;
    }
    if (waiting_[bucket] == 0) issue();
}

void Reducer::issue() {
    // One global order: a bucket that is complete early waits for the ones before it, as it does on every
    // rank.
    while (next_ < buckets_.size() && waiting_[next_] == 0) {
        if (recorder_) recorder_->timeline().buckets[next_].issued = recorder_->now();
        works_[next_] = start(next_);
        ++next_;
    }
}

Work Reducer::start(std::size_t bucket) {
    if (shards_)
        return communicator_.reduce_scatter(slice(arena_, shards_->buckets[bucket]),
                                            slice(arena_, shards_->owned[bucket]), ReduceOp::sum);
    return communicator_.all_reduce(slice(arena_, {buckets_[bucket].offset, buckets_[bucket].count}),
                                    ReduceOp::sum);
}

void Reducer::note_done(std::size_t bucket) {
    if (recorder_) recorder_->timeline().buckets[bucket].done = recorder_->now();
}

template <class Call>
auto Reducer::naming_bucket(std::size_t bucket, const Call& call) {
    try {
        return call(works_[bucket]);
    } catch (const PeerError& error) {
        throw PeerError("bucket " + std::to_string(bucket) + " of " + std::to_string(buckets_.size()) + ": " +
                        error.what());
    }
}

void Reducer::poll() {
    // In order: a test of one transfer lets the library go on with all of them.
    while (done_ < next_ && naming_bucket(done_, [](Work& work) { return work.test(); })) note_done(done_++);
}

void Reducer::finish(const BucketSummed& summed) {
    assert(next_ == buckets_.size());
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        if (done_ == b) {  // polls of `summed` may have seen its end
            naming_bucket(b, [](Work& work) { work.wait(); });
            note_done(done_++);
        }
        if (summed) summed(buckets_[b]);
    }
    for (std::size_t b = 0; b < buckets_.size(); ++b) waiting_[b] = buckets_[b].last - buckets_[b].first + 1;
    next_ = done_ = 0;
}

}  // namespace tutti
