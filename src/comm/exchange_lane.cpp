#include "exchange_lane.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "combine.hpp"
#include "exchange_limits.hpp"
#include "mpi_communicator.hpp"
#include "waiting.hpp"

namespace tutti {

ExchangeLane::ExchangeLane(const Handle& handle, const Sizes& sizes)
    : comm_(handle.comm),
      rank_(handle.rank),
      ranks_(handle.size),
      world_rank_(handle.world_rank),
      job_(handle.job),
      lanes_(handle.lanes),
      sizes_(sizes),
      window_(
          std::max<std::size_t>(4, sizes.flying / (sizes.message * static_cast<std::size_t>(ranks_ - 1)))) {
    if (lanes_) lanes_->add(this);
}

ExchangeLane::~ExchangeLane() {
    if (lanes_) lanes_->remove(this);
}

std::uint64_t ExchangeLane::issue(const TensorView& buffer, ReduceOp op) {
    requests_.push_back({buffer.data, buffer.count(), buffer.dtype, op});
    return issued_++;
}

std::uint64_t ExchangeLane::issue_reduce_scatter(const TensorView& input, const TensorView& output,
                                                 ReduceOp op) {
    requests_.push_back({input.data, output.count(), input.dtype, op, output.data});
    return issued_++;
}

void ExchangeLane::work_off() {
    for (bool moved = true; moved && !stopped_ && finished_ < issued_;) {
        moved = try_post();
        moved |= try_add();
        moved |= try_finish();
    }
}

void ExchangeLane::check(int code, const char* call) const {
    check_mpi(code, call, world_rank_);
}

/// Far fewer segments are under way at once.
int ExchangeLane::tag(std::uint64_t segment, int round) {
    return static_cast<int>(segment % (exchange_tag / 2)) * 2 + round;
}

ExchangeLane::Share ExchangeLane::share(const Segment& segment, int rank) const {
    if (segment.output) return {segment.stride * rank, segment.count};
    const std::int64_t each = (segment.count + ranks_ - 1) / ranks_;
    const std::int64_t first = std::min(each * rank, segment.count);
    return {first, std::min(each, segment.count - first)};
}

ExchangeLane::Share ExchangeLane::added_here(const Segment& segment) const {
    return segment.whole ? Share{0, segment.count} : share(segment, rank_);
}

void ExchangeLane::send(Segment& segment, const Share& part, int to, int tag) {
    check(MPI_Isend(segment.data + segment.bytes(part.first), static_cast<int>(segment.bytes(part.count)),
                    MPI_BYTE, to, tag, comm_, &segment.messages.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
}

void ExchangeLane::receive(Segment& segment, std::byte* to, std::size_t bytes, int from, int tag) {
    check(MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, from, tag, comm_,
                    &segment.messages.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
}

bool ExchangeLane::arrived(Segment& segment, int round) {
    const std::size_t messages = segment.messages.size();
    if (statuses_.size() < messages) statuses_.resize(messages);
    int all = 0;
    const int code = MPI_Testall(static_cast<int>(messages), segment.messages.data(), &all, statuses_.data());
    if (code == MPI_SUCCESS && all == 0) return false;
    if (messages > 0) check_sizes(segment, round, code);
    check(code, "MPI_Testall");
    return true;
}

void ExchangeLane::check_sizes(const Segment& segment, int round, int code) const {
    // Errors of other kinds tell nothing of single messages.
    int of_all = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &of_all);
    if (of_all != MPI_SUCCESS && of_all != MPI_ERR_IN_STATUS) return;
    // Those to receive are the first messages, from the rank before this one downwards.
    for (int other = 1; other < ranks_; ++other) {
        const MPI_Status& status = statuses_[static_cast<std::size_t>(other - 1)];
        int error_class = MPI_SUCCESS, came = 0;
        if (of_all != MPI_SUCCESS) MPI_Error_class(status.MPI_ERROR, &error_class);
        if (error_class != MPI_SUCCESS && error_class != MPI_ERR_TRUNCATE) continue;
        const int from = (rank_ + ranks_ - other) % ranks_;
        const Share part = round == 0 ? added_here(segment) : share(segment, from);
        const auto expected = static_cast<int>(segment.bytes(part.count));
        MPI_Get_count(&status, MPI_BYTE, &came);
        if (error_class == MPI_SUCCESS && came == expected) continue;
        const std::string call = segment.output ? "reduce_scatter" : "all_reduce";
        // What was cut off need not have been counted.
        const std::string sent = came > expected || error_class == MPI_SUCCESS
                                     ? std::to_string(came)
                                     : "more than " + std::to_string(expected);
        const auto name = [&](int rank) { return name_of_rank(in_world(rank), job_->hosts); };
        throw PeerError(call + ": " + name(from) + " has sent " + sent + " bytes where " + name(rank_) +
                            " expects " + std::to_string(expected) + ": their buffers differ in size",
                        same_calls);
    }
}

int ExchangeLane::in_world(int rank) const {
    MPI_Group own = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm_, &own), "MPI_Comm_group");
    check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    int found = rank;
    check(MPI_Group_translate_ranks(own, 1, &rank, world, &found), "MPI_Group_translate_ranks");
    MPI_Group_free(&own);
    MPI_Group_free(&world);
    return found;
}

bool ExchangeLane::try_post() {
    if (requests_.empty() || segments_.size() >= window_) return false;
    const Request request = requests_.front();
    Segment segment;
    if (!spare_.empty()) {
        segment = std::move(spare_.back());
        spare_.pop_back();
    }
    segment.element_bytes = size_of(request.dtype);
    segment.dtype = request.dtype;
    segment.op = request.op;
    segment.data = request.data + segment.bytes(posted_elements_);
    const std::int64_t rest = request.count - posted_elements_;
    const auto message = static_cast<std::int64_t>(sizes_.message / segment.element_bytes);
    segment.output = request.output ? request.output + segment.bytes(posted_elements_) : nullptr;
    segment.stride = request.output ? request.count : 0;
    segment.whole = !segment.output && (ranks_ == 2 || segment.bytes(rest) <= sizes_.whole);
    segment.count = std::min(rest, segment.whole || segment.output ? message : message * ranks_);
    segment.last = segment.count == rest;
    segment.messages.clear();

    const std::uint64_t number = first_segment_ + segments_.size();
    const Share mine = added_here(segment);
    segment.received.resize(segment.bytes(mine.count) * static_cast<std::size_t>(ranks_));
    segments_.push_back(std::move(segment));
    Segment& posted = segments_.back();
    for (int other = 1; other < ranks_; ++other) {
        const int from = (rank_ + ranks_ - other) % ranks_;
        receive(posted, posted.received.data() + posted.bytes(mine.count) * static_cast<std::size_t>(from),
                posted.bytes(mine.count), from, tag(number, 0));
    }
    for (int other = 1; other < ranks_; ++other) {  // not all to one rank at once
        const int to = (rank_ + other) % ranks_;
        send(posted, posted.whole ? mine : share(posted, to), to, tag(number, 0));
    }
    posted_elements_ += posted.count;
    if (posted.last) {
        posted_elements_ = 0;
        requests_.pop_front();
    }
    return true;
}

void ExchangeLane::add(Segment& segment) const {
    const Share mine = added_here(segment);
    std::byte* own = segment.data + segment.bytes(mine.first);
    if (segment.output && segment.output != own) {
        std::memcpy(segment.output, own, segment.bytes(mine.count));
        own = segment.output;
    }
    combine_received(own, segment.received.data(), rank_, ranks_, mine.count, segment.dtype, segment.op);
}

bool ExchangeLane::try_add() {
    if (added_ == segments_.size()) return false;
    Segment& segment = segments_[added_];
    if (!arrived(segment, 0)) return false;
    add(segment);
    segment.messages.clear();
    const std::uint64_t number = first_segment_ + added_++;
    if (segment.whole || segment.output) return true;
    for (int other = 1; other < ranks_; ++other) {
        const int from = (rank_ + ranks_ - other) % ranks_;
        const Share part = share(segment, from);
        receive(segment, segment.data + segment.bytes(part.first), segment.bytes(part.count), from,
                tag(number, 1));
    }
    for (int other = 1; other < ranks_; ++other)
        send(segment, share(segment, rank_), (rank_ + other) % ranks_, tag(number, 1));
    return true;
}

bool ExchangeLane::try_finish() {
    if (added_ == 0 || !arrived(segments_.front(), 1)) return false;
    if (segments_.front().last) ++finished_;
    spare_.push_back(std::move(segments_.front()));
    segments_.pop_front();
    ++first_segment_;
    --added_;
    return true;
}

std::vector<int> ExchangeLane::awaited() const {
    std::vector<int> ranks;
    if (segments_.empty()) return ranks;
    const std::vector<MPI_Request>& messages = segments_.front().messages;
    // Those to receive are the first of them, from the rank before this one downwards.
    for (int other = ranks_ - 1; other >= 1; --other) {
        const auto place = static_cast<std::size_t>(other - 1);
        int come = 0;
        if (place < messages.size() &&
            MPI_Request_get_status(messages[place], &come, MPI_STATUS_IGNORE) == MPI_SUCCESS && come == 0)
            ranks.push_back((rank_ + ranks_ - other) % ranks_);
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
}

std::shared_ptr<AllReduceLane> make_exchange_lane(const std::shared_ptr<const Handle>& handle) {
    if (handle->size == 1 || handle->size > most_exchanging_ranks) return nullptr;
    return std::make_shared<ExchangeLane>(*handle, ExchangeLane::Sizes());
}

}  // namespace tutti
