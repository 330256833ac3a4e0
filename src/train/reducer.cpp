#include "tutti/train/reducer.hpp"

#include <cassert>

namespace tutti {

Reducer::Reducer(Communicator& communicator, const TensorView& arena, std::vector<Bucket> buckets)
    : communicator_(communicator), arena_(arena), buckets_(std::move(buckets)), works_(buckets_.size()) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        waiting_.push_back(buckets_[b].last - buckets_[b].first + 1);
        bucket_of_.insert(bucket_of_.end(), waiting_.back(), b);
    }
}

void Reducer::ready(std::size_t parameter) {
    std::size_t& waiting = waiting_[bucket_of_[parameter]];
    assert(waiting > 0);
    if (--waiting == 0) issue();
}

void Reducer::issue() {
    // One global order: a bucket that is complete early waits for the ones before it, as it does on every
    // rank.
    while (next_ < buckets_.size() && waiting_[next_] == 0) {
        const Bucket& bucket = buckets_[next_];
        const TensorView slice{arena_.data + static_cast<std::size_t>(bucket.offset) * size_of(arena_.dtype),
                               arena_.dtype,
                               {bucket.count}};
        works_[next_] = communicator_.all_reduce(slice, ReduceOp::sum);
        ++next_;
    }
}

void Reducer::finish() {
    assert(next_ == buckets_.size());
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        try {
            works_[b].wait();
        } catch (const PeerError& error) {
            throw PeerError("bucket " + std::to_string(b) + " of " + std::to_string(buckets_.size()) + ": " +
                            error.what());
        }
        waiting_[b] = buckets_[b].last - buckets_[b].first + 1;
    }
    next_ = 0;
}

}  // namespace tutti
