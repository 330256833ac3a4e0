#pragma once
// Private to comm: collectives of several ranks on each of several hosts.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "exchange_lane.hpp"
#include "host_layout.hpp"
#include "tutti/comm/all_reduce_path.hpp"

namespace tutti {

/// What leaves a host is the sum of its ranks, once, and each rank sends its share of that. A buffer goes in
/// pieces, of which every rank of a host owns a block:
///   scatter   reduce-scatter within the host, through shared memory: the block's sum over the host's ranks;
///   across    all-reduce of the block with the ranks in the same place of the other hosts (ExchangeLane);
///   gather    all-gather of the blocks within the host, through shared memory;
/// several pieces are under way at once, in different stages. 2(h − 1)/h of the bytes leave each of h hosts,
/// the least that is possible, where direct messages between all ranks of p on each take p times as many.
/// Small pieces are summed whole by every rank of a host and exchanged whole, without a gather.
/// A reduce-scatter is the first two stages, an all-gather the last two.
/// An element's sum is that of the hosts' sums (combine_ranks, twice): it does not depend on where buffers or
/// pieces begin. Of bf16 the hosts' sums are rounded, too.
class TwoLevelLane final : public AllReduceLane {
  public:
    struct Sizes {
        ExchangeLane::Sizes across = {};
        std::size_t whole = 4 << 10;  ///< pieces up to this many bytes are summed whole
    };
    /// The rank's lanes within its host, two because each has its own order of requests, and between hosts.
    struct Parts {
        std::shared_ptr<AllReduceLane> scatter, gather, across;
    };

    /// across: the handle of the ranks in the same place, for all-gathers.
    TwoLevelLane(const Handle& whole, std::shared_ptr<const HostLayout> layout, Parts parts,
                 std::shared_ptr<const Handle> across, const Sizes& sizes);
    ~TwoLevelLane() override;

    std::uint64_t issue(const TensorView& buffer, ReduceOp op) override;
    std::uint64_t issue_reduce_scatter(const TensorView& input, const TensorView& output,
                                       ReduceOp op) override;
    /// Nothing where a host's ranks do not follow one another.
    std::optional<std::uint64_t> issue_all_gather(const TensorView& input, const TensorView& output) override;
    bool drives_mpi() const override { return returned_ < left_; }
    bool finished(std::uint64_t request) const override { return finished_ > request; }
    /// Its own end, or that of a part.
    const std::string& ended_by() const override;
    const char* name() const override { return ways::hosts_then_exchange; }

  protected:
    void work_off() override;
    void halt() override;

  private:
    enum class Kind { blocks, whole, reduce_scatter, all_gather };
    /// In an all-reduce what goes through the stages at once; of the others the whole request.
    struct Piece {
        Kind kind = Kind::whole;
        TensorView input, output;  ///< of an all-reduce both are the piece
        ReduceOp op = ReduceOp::sum;
        bool last = true;                 ///< of its request
        std::vector<std::byte> blocks{};  ///< of a reduce-scatter and all-gather, one for each host
        std::vector<std::byte> sorted{};  ///< input of a reduce-scatter, by host and place
        std::uint64_t scattered = 0, exchanged = 0, gathered = 0;  ///< requests of the lanes
        MPI_Request message = MPI_REQUEST_NULL;                    ///< of an all-gather
    };

    void add(Piece piece);
    void scatter(Piece& piece);
    void scatter_to_hosts(Piece& piece);
    void exchange(Piece& piece);
    void gather(Piece& piece);
    bool is_scattered(const Piece& piece) const;
    bool has_returned(Piece& piece) const;
    bool is_gathered(const Piece& piece) const;
    /// The own block of an all-reduce's piece.
    TensorView own_block(const Piece& piece) const;

    std::shared_ptr<Lanes> lanes_;
    std::shared_ptr<const HostLayout> layout_;
    Parts parts_;
    std::shared_ptr<const Handle> across_;
    Sizes sizes_;
    int place_;
    std::deque<Piece> pieces_;             ///< under way; the first is the oldest
    std::size_t left_ = 0, returned_ = 0;  ///< of pieces_, how many have begun and ended their way across
    std::uint64_t issued_ = 0, finished_ = 0;
    bool stopped_ = false;
};

/// Null, on every rank, where handle->layout is, or has one rank on each host or more hosts than
/// most_equal_hosts, or where the ranks of a host cannot share memory. Collective; waits as every transfer
/// does.
std::shared_ptr<AllReduceLane> make_two_level_lane(const std::shared_ptr<const Handle>& handle);

}  // namespace tutti
