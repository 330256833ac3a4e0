#include "tutti/train/reducer.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace tutti {

Reducer::Reducer(Communicator& communicator, const TensorView& arena, std::vector<Bucket> buckets,
                 std::optional<ShardPlan> shards)
    : communicator_(communicator), arena_(arena), shards_(std::move(shards)) {
    assert(!shards_ || shards_->owned.size() == buckets.size());
    use(std::move(buckets), {});
}

void Reducer::replan(std::vector<Bucket> buckets, std::vector<std::size_t> order) {
    assert(!begun_ && !shards_);
    ++plans_;
    use(std::move(buckets), std::move(order));
}

void Reducer::use(std::vector<Bucket> buckets, std::vector<std::size_t> order) {
    buckets_ = std::move(buckets);
    next_ = done_ = finished_ = 0;
    begun_ = false;
    waiting_.assign(buckets_.size(), 0);
    expect_gradients();
    bucket_of_.clear();
    for (std::size_t b = 0; b < buckets_.size(); ++b) bucket_of_.insert(bucket_of_.end(), waiting_[b], b);
    order_ = std::move(order);
    if (order_.empty()) {
        order_.resize(buckets_.size());
        std::iota(order_.begin(), order_.end(), std::size_t{0});
    }
    cut_into_pieces();
    ready_order_.reserve(bucket_of_.size());
}

void Reducer::cut_into_pieces() {
    // Whole cache lines.
    constexpr std::int64_t together = 16;
    std::vector<std::int64_t> all(buckets_.size()), before(buckets_.size());
    for (const std::size_t bucket : order_) ++all[bucket];
    assert(std::ranges::count(all, 0) == 0 && (!shards_ || order_.size() == buckets_.size()));
    pieces_ = std::vector<Piece>(order_.size());
    place_.resize(buckets_.size());
    std::size_t cut = 0;  // buckets of which some pieces are before this place and some are not
    for (std::size_t place = 0; place < order_.size(); ++place) {
        const std::size_t bucket = order_[place];
        const std::int64_t count = buckets_[bucket].count, number = before[bucket]++, pieces = all[bucket];
        const auto begin_of = [&](std::int64_t piece) {
            return piece == pieces ? count : count / pieces * piece / together * together;
        };
        const std::int64_t begin = begin_of(number);
        pieces_[place] = {bucket,
                          buckets_[bucket].offset + begin,
                          begin_of(number + 1) - begin,
                          number == 0,
                          number + 1 == pieces,
                          cut > 0};
        if (pieces > 1 && number == 0) ++cut;
        if (pieces > 1 && number + 1 == pieces) --cut;
        place_[bucket] = place;
    }
}

void Reducer::expect_gradients() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) waiting_[b] = buckets_[b].last - buckets_[b].first + 1;
}

void Reducer::ready(std::size_t parameter) {
    const std::size_t bucket = bucket_of_[parameter];
    assert(waiting_[bucket] > 0);
    begun_ = true;
    --waiting_[bucket];
    if (ready_order_.size() == bucket_of_.size()) ready_order_.clear();
    ready_order_.push_back(parameter);
    if (recorder_) recorder_->parameter_ready(parameter);
    if (waiting_[bucket] > 0) return;
    if (recorder_) recorder_->bucket_ready(bucket, parameter);
    if (at_end_) return;
    if (recorder_) recorder_->transfer_call_begins();
    issue();
    if (recorder_) recorder_->transfer_call_ends();
}

template <class Start>
void Reducer::issue(Piece& piece, const Start& start) {
    ++next_;
    if (recorder_ && piece.first) recorder_->bucket_issued(piece.bucket);
    piece.work = start(piece);
}

void Reducer::issue() {
    // One global order: a bucket that is complete early waits for the ones before it, as it does on every
    // rank.
    while (next_ < pieces_.size() && waiting_[pieces_[next_].bucket] == 0) {
        Piece& piece = pieces_[next_];
        if (recorder_ && piece.between && done_ == next_) recorder_->pause_ends();
        issue(piece, [this](const Piece& one) { return start(one); });
    }
}

Work Reducer::start(const Piece& piece) {
    if (shards_)
        return communicator_.reduce_scatter(slice(arena_, shards_->buckets[piece.bucket]),
                                            slice(arena_, shards_->owned[piece.bucket]), ReduceOp::sum);
    return communicator_.all_reduce(slice(arena_, ArenaRange{piece.offset, piece.count}), ReduceOp::sum);
}

void Reducer::note_done() {
    const Piece& piece = pieces_[done_++];
    if (!recorder_) return;
    if (piece.last) recorder_->bucket_done(piece.bucket);
    if (done_ == next_) recorder_->link_rests();
}

template <class Call>
auto Reducer::naming_bucket(Piece& piece, const Call& call) {
    try {
        return call(piece.work);
    } catch (const PeerError& error) {
        throw PeerError("bucket " + std::to_string(piece.bucket) + " of " + std::to_string(buckets_.size()) +
                        ": " + error.what());
    }
}

void Reducer::poll() {
    if (done_ == next_ || updating_) return;
    if (recorder_) recorder_->transfer_call_begins();
    // In order: a test of one transfer lets the library go on with all of them.
    while (done_ < next_ && naming_bucket(pieces_[done_], [](Work& work) { return work.test(); }))
        note_done();
    if (recorder_) recorder_->transfer_call_ends();
}

void Reducer::finish_before(std::size_t end, const BucketSummed& summed) {
    for (; finished_ < end; ++finished_) {
        if (done_ == finished_) {  // polls of `summed` may have seen its end
            naming_bucket(pieces_[finished_], [](Work& work) { work.wait(); });
            note_done();
        }
        if (summed && pieces_[finished_].last) summed(pieces_[finished_].bucket);
    }
    if (finished_ < pieces_.size()) return;
    expect_gradients();
    next_ = done_ = finished_ = 0;
    begun_ = false;
}

std::size_t Reducer::end_of(std::size_t first, std::size_t last) const {
    std::size_t end = 0;
    for (std::size_t p = first; p < last; ++p) end = std::max(end, place_[bucket_of_[p]] + 1);
    return end;
}

bool Reducer::is_finished(std::size_t first, std::size_t last) const {
    return !begun_ || end_of(first, last) <= finished_;
}

void Reducer::finish_for(std::size_t first, std::size_t last, const BucketSummed& summed) {
    if (is_finished(first, last)) return;
    assert(end_of(first, last) <= next_);
    finish_before(end_of(first, last), summed);
}

void Reducer::finish(const BucketSummed& summed) {
    if (at_end_) issue();
    assert(next_ == pieces_.size());
    finish_before(pieces_.size(), summed);
}

void Reducer::update(const TensorView& parameters, const UseSums& use) {
    assert(at_end_ && shards_ && next_ == 0 && std::ranges::count(waiting_, 0U) == std::ssize(waiting_));
    struct Updating {
        explicit Updating(bool& flag) : flag_(flag) { flag_ = true; }
        Updating(const Updating&) = delete;
        Updating& operator=(const Updating&) = delete;
        ~Updating() { flag_ = false; }
        bool& flag_;
    } const updating(updating_);
    for (Piece& piece : pieces_)
        issue(piece, [&](const Piece& one) {
            const ArenaRange &whole = shards_->buckets[one.bucket], &owned = shards_->owned[one.bucket];
            return communicator_.reduce_then_gather(
                slice(arena_, whole), slice(parameters, whole),
                [use, offset = owned.offset](std::int64_t first, std::int64_t count) {
                    use({offset + first, count});
                });
        });
    finish_before(pieces_.size(), {});
}

}  // namespace tutti
