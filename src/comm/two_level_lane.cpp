#include "two_level_lane.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "shared_lane.hpp"

namespace tutti {
namespace {

TensorView part(const TensorView& whole, std::int64_t first, std::int64_t count) {
    return {whole.data + first * static_cast<std::int64_t>(size_of(whole.dtype)), whole.dtype, Shape{count}};
}

/// Block `number` of those of `count` elements.
TensorView block(std::byte* blocks, std::int64_t number, DType dtype, std::int64_t count) {
    return part({blocks, dtype, Shape{count}}, number * count, count);
}

/// A handle of some of the ranks of `whole`; the communicator stays the caller's.
std::shared_ptr<Handle> part_of(const Handle& whole, MPI_Comm comm) {
    auto handle = std::make_shared<Handle>();
    handle->comm = comm;
    handle->job = whole.job;
    handle->lanes = whole.lanes;
    handle->crowded = whole.crowded;
    handle->check(MPI_Comm_rank(comm, &handle->rank), "MPI_Comm_rank");
    handle->check(MPI_Comm_size(comm, &handle->size), "MPI_Comm_size");
    handle->world_rank = whole.world_rank;
    return handle;
}

}  // namespace

TwoLevelLane::TwoLevelLane(const Handle& whole, std::shared_ptr<const HostLayout> layout, Parts parts,
                           std::shared_ptr<const Handle> across, const Sizes& sizes)
    : lanes_(whole.lanes),
      layout_(std::move(layout)),
      parts_(std::move(parts)),
      across_(std::move(across)),
      sizes_(sizes),
      place_(layout_->place_of(whole.rank)) {
    lanes_->add(this);
}

TwoLevelLane::~TwoLevelLane() {
    lanes_->remove(this);
}

std::uint64_t TwoLevelLane::issue(const TensorView& buffer, ReduceOp op) {
    const std::size_t element = size_of(buffer.dtype);
    const std::int64_t ranks = layout_->local_size, count = buffer.count();
    // As much as makes full messages between hosts.
    const auto largest = static_cast<std::int64_t>(sizes_.across.message / element) * layout_->hosts;
    for (std::int64_t first = 0; first < count;) {
        const std::int64_t rest = count - first;
        const bool whole = rest < ranks || static_cast<std::size_t>(rest) * element <= sizes_.whole;
        const std::int64_t taken = whole ? rest : std::min(rest / ranks, largest) * ranks;
        const TensorView piece = part(buffer, first, taken);
        first += taken;
        add({.kind = whole ? Kind::whole : Kind::blocks,
             .input = piece,
             .output = piece,
             .op = op,
             .last = first == count});
    }
    return issued_++;
}

std::uint64_t TwoLevelLane::issue_reduce_scatter(const TensorView& input, const TensorView& output,
                                                 ReduceOp op) {
    add({.kind = Kind::reduce_scatter, .input = input, .output = output, .op = op});
    return issued_++;
}

std::optional<std::uint64_t> TwoLevelLane::issue_all_gather(const TensorView& input,
                                                            const TensorView& output) {
    if (!layout_->in_blocks() || input.bytes() > std::numeric_limits<int>::max()) return std::nullopt;
    add({.kind = Kind::all_gather, .input = input, .output = output});
    return issued_++;
}

void TwoLevelLane::add(Piece piece) {
    scatter(pieces_.emplace_back(std::move(piece)));
}

void TwoLevelLane::work_off() {
    for (bool moved = true; moved && !stopped_ && finished_ < issued_;) {
        moved = false;
        parts_.scatter->progress();
        for (; left_ < pieces_.size() && is_scattered(pieces_[left_]); ++left_) {
            exchange(pieces_[left_]);
            moved = true;
        }
        parts_.across->progress();
        for (; returned_ < left_ && has_returned(pieces_[returned_]); ++returned_) {
            gather(pieces_[returned_]);
            moved = true;
        }
        parts_.gather->progress();
        for (; returned_ > 0 && is_gathered(pieces_.front()); --left_, --returned_) {
            if (pieces_.front().last) ++finished_;
            pieces_.pop_front();
            moved = true;
        }
    }
}

void TwoLevelLane::halt() {
    stopped_ = true;
    for (AllReduceLane* lane : {parts_.scatter.get(), parts_.across.get(), parts_.gather.get()})
        lane->stop(AllReduceLane::ended_by());
}

const std::string& TwoLevelLane::ended_by() const {
    for (const AllReduceLane* lane : {parts_.scatter.get(), parts_.across.get(), parts_.gather.get()})
        if (!lane->ended_by().empty()) return lane->ended_by();
    return AllReduceLane::ended_by();
}

TensorView TwoLevelLane::own_block(const Piece& piece) const {
    const std::int64_t count = piece.output.count() / layout_->local_size;
    return part(piece.output, count * place_, count);
}

void TwoLevelLane::scatter(Piece& piece) {
    switch (piece.kind) {
        case Kind::blocks:
            piece.scattered = parts_.scatter->issue_reduce_scatter(piece.input, own_block(piece), piece.op);
            return;
        case Kind::whole:
            piece.scattered = parts_.scatter->issue(piece.input, piece.op);
            return;
        case Kind::reduce_scatter:
            return scatter_to_hosts(piece);
        case Kind::all_gather:
            return;
    }
}

void TwoLevelLane::scatter_to_hosts(Piece& piece) {
    const std::int64_t count = piece.output.count();
    TensorView blocks = piece.input;
    if (!layout_->in_blocks()) {
        piece.sorted.resize(piece.input.bytes());
        layout_->sort_blocks(piece.input.data, piece.output.bytes(), piece.sorted.data());
        blocks.data = piece.sorted.data();
    }
    piece.blocks.resize(piece.output.bytes() * static_cast<std::size_t>(layout_->hosts));
    const std::int64_t of_host = count * layout_->local_size;
    for (int host = 0; host < layout_->hosts; ++host)
        piece.scattered = parts_.scatter->issue_reduce_scatter(
            part(blocks, of_host * host, of_host), block(piece.blocks.data(), host, blocks.dtype, count),
            piece.op);
}

bool TwoLevelLane::is_scattered(const Piece& piece) const {
    return piece.kind == Kind::all_gather || parts_.scatter->finished(piece.scattered);
}

void TwoLevelLane::exchange(Piece& piece) {
    switch (piece.kind) {
        case Kind::blocks:
            piece.exchanged = parts_.across->issue(own_block(piece), piece.op);
            return;
        case Kind::whole:
            piece.exchanged = parts_.across->issue(piece.output, piece.op);
            return;
        case Kind::reduce_scatter:
            piece.exchanged = parts_.across->issue_reduce_scatter(
                {piece.blocks.data(), piece.output.dtype, Shape{piece.output.count() * layout_->hosts}},
                piece.output, piece.op);
            return;
        case Kind::all_gather: {
            const auto bytes = static_cast<int>(piece.input.bytes());
            piece.blocks.resize(piece.input.bytes() * static_cast<std::size_t>(layout_->hosts));
            across_->check(MPI_Iallgather(piece.input.data, bytes, MPI_BYTE, piece.blocks.data(), bytes,
                                          MPI_BYTE, across_->comm, &piece.message),
                           "MPI_Iallgather");
            return;
        }
    }
}

bool TwoLevelLane::has_returned(Piece& piece) const {
    if (piece.kind != Kind::all_gather) return parts_.across->finished(piece.exchanged);
    int done = 0;
    across_->check(MPI_Test(&piece.message, &done, MPI_STATUS_IGNORE), "MPI_Iallgather");
    return done != 0;
}

void TwoLevelLane::gather(Piece& piece) {
    if (piece.kind == Kind::blocks)
        piece.gathered = parts_.gather->issue_all_gather(own_block(piece), piece.output).value();
    if (piece.kind != Kind::all_gather) return;
    const std::int64_t count = piece.input.count(), of_host = count * layout_->local_size;
    for (int host = 0; host < layout_->hosts; ++host)
        piece.gathered = parts_.gather
                             ->issue_all_gather(block(piece.blocks.data(), host, piece.input.dtype, count),
                                                part(piece.output, of_host * host, of_host))
                             .value();
}

bool TwoLevelLane::is_gathered(const Piece& piece) const {
    return piece.kind == Kind::whole || piece.kind == Kind::reduce_scatter ||
           parts_.gather->finished(piece.gathered);
}

std::shared_ptr<AllReduceLane> make_two_level_lane(const std::shared_ptr<const Handle>& handle) {
    const auto& layout = handle->layout;
    if (!layout || layout->local_size == 1 || layout->hosts > most_equal_hosts) return nullptr;
    const auto local = part_of(*handle, layout->local);
    TwoLevelLane::Parts parts{make_shared_lane(local), make_shared_lane(local), nullptr};

    MPI_Comm comm = MPI_COMM_NULL;
    MpiTransfer duplicate(handle, "duplicate", 0, DType::u8);
    handle->check(MPI_Comm_idup(layout->across, &comm, duplicate.add()), "MPI_Comm_idup");
    duplicate.wait();
    handle->check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    const auto across = part_of(*handle, comm);
    across->owned = true;
    parts.across = std::make_shared<ExchangeLane>(*across, ExchangeLane::Sizes());

    const int mapped = parts.scatter && parts.gather ? 1 : 0;
    int all = 0;
    MpiTransfer agree(handle, "sharing memory", 1, DType::i64);
    handle->check(MPI_Iallreduce(&mapped, &all, 1, MPI_INT, MPI_MIN, handle->comm, agree.add()),
                  "MPI_Iallreduce");
    agree.wait();
    if (all == 0) return nullptr;
    return std::make_shared<TwoLevelLane>(*handle, layout, std::move(parts), across, TwoLevelLane::Sizes());
}

}  // namespace tutti
