#pragma once
// Collectives among ranks that share memory: all-reduce, reduce-scatter, all-gather. No MPI in here: the
// region may be any memory that all ranks see.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "all_reduce_lane.hpp"
#include "tutti/comm/all_reduce_path.hpp"

namespace tutti {

/// A buffer goes through the region in chunks that stay in the caches. Of each chunk every rank owns a share:
///   stage    copy the others' shares into the own slot of the region,
///   reduce   own share: add what all ranks staged (combine_ranks) into the slot and the own buffer,
///   collect  copy the finished shares of the others into the own buffer.
/// So a rank reads and writes each byte of its buffer once, and the others' slots are read from caches. Small
/// chunks are staged whole and added by every rank, which needs one meeting of the ranks instead of two.
/// In a reduce-scatter a chunk holds a piece of each rank's block, and nobody collects; in an all-gather a
/// chunk is a piece of the own block, and nothing is added. Where both are one request with a use of the sums
/// between them, a chunk holds a piece of each rank's block, too; of the own one, which nobody stages, its
/// slot takes what was made of the sums, for the others to collect.
/// An element's sum does not depend on where buffers or chunks begin.
///
/// One object per rank. Requests are worked off in their order. Ranks that issue different ones in one place
/// are told so by PeerError from progress(), before anything is added. After an error, that or one of who
/// uses the sums, the object has stopped.
class SharedAllReduce final : public AllReduceLane {
  public:
    struct Sizes {
        std::size_t chunk = 128 << 10;  ///< bytes, a multiple of 64
        std::size_t slots = 4;          ///< chunks of one rank under way at once, up to 7
        std::size_t whole = 64 << 10;   ///< chunks up to this many bytes over all ranks are staged whole
    };

    static std::size_t region_bytes(int ranks, const Sizes& sizes);
    static std::size_t region_bytes(int ranks) { return region_bytes(ranks, Sizes()); }

    /// region: region_bytes(), zeroed before any rank starts, aligned to 64; outlives this object.
    SharedAllReduce(std::byte* region, int rank, int ranks, const Sizes& sizes);
    SharedAllReduce(std::byte* region, int rank, int ranks) : SharedAllReduce(region, rank, ranks, Sizes()) {}

    std::uint64_t issue(const TensorView& buffer, ReduceOp op) override;
    std::uint64_t issue_reduce_scatter(const TensorView& input, const TensorView& output,
                                       ReduceOp op) override;
    std::optional<std::uint64_t> issue_all_gather(const TensorView& input, const TensorView& output) override;
    std::optional<std::uint64_t> issue_reduce_then_gather(const TensorView& input, const TensorView& output,
                                                          const Communicator::UseSums& use) override;
    bool reduces_then_gathers_by_piece() const override { return true; }
    bool finished(std::uint64_t request) const override { return collect_.request > request; }
    std::vector<int> awaited() const override;
    const char* name() const override { return ways::shared_memory; }

  protected:
    void work_off() override;
    void halt() override { stopped_ = true; }

  private:
    enum class Kind { all_reduce, reduce_scatter, all_gather, reduce_then_gather };
    struct Request {
        Kind kind;
        std::byte* input;
        std::byte* output;
        std::int64_t count;  ///< elements; of a block where the buffers consist of them
        DType dtype;
        ReduceOp op;
        Communicator::UseSums use = {};  ///< of a reduce_then_gather
    };
    /// The next chunk to stage, to reduce, or to collect.
    struct Cursor {
        std::uint64_t chunk = 0, request = 0;
        std::int64_t element = 0;
    };
    static constexpr std::size_t most_slots = 7;
    /// How many chunks a rank has staged, reduced, collected: each on a cache line of its own.
    struct Counters {
        alignas(64) std::atomic<std::uint64_t> staged;
        /// What request the chunk in each slot belongs to (token): on the line that is read anyway.
        std::atomic<std::uint64_t> requests[most_slots];
        alignas(64) std::atomic<std::uint64_t> reduced;
        alignas(64) std::atomic<std::uint64_t> collected;
    };
    /// What a cursor points at.
    struct Chunk {
        Kind kind;
        std::byte* input;     ///< of its first element, in the first block where there are blocks
        std::byte* output;    ///< the same
        std::int64_t count;   ///< elements; where there are blocks, of each
        std::int64_t stride;  ///< elements from one block to the next; 0 without blocks
        std::size_t element_bytes;
        DType dtype;
        ReduceOp op;
        bool whole;

        std::size_t bytes(std::int64_t elements) const {
            return static_cast<std::size_t>(elements) * element_bytes;
        }
    };

    static std::uint64_t token(const Request& request);
    static std::string describe(std::uint64_t token);
    /// Throws PeerError where a peer's request in the place of reduce_'s is another one.
    void require_same_request() const;
    void move_on();
    Chunk at(const Cursor& cursor) const;
    void advance(Cursor& cursor, std::int64_t count) const;
    /// Elements [first, end) of a chunk that `rank` owns.
    std::pair<std::int64_t, std::int64_t> share(const Chunk& chunk, int rank) const;
    std::byte* slot(int rank, std::uint64_t chunk) const;
    bool everybody_reached(std::uint64_t count, std::atomic<std::uint64_t> Counters::*counter,
                           std::uint64_t& known) const;
    bool try_stage();
    bool try_reduce();
    bool try_collect();
    std::uint64_t add(const Request& request);
    void stage(const Chunk& chunk, std::byte* to) const;
    void reduce(const Chunk& chunk, std::uint64_t number);
    void reduce_to_block(const Chunk& chunk, std::uint64_t number) const;
    void reduce_and_use(const Chunk& chunk, const Cursor& place) const;
    /// Of a chunk with pieces of blocks, that of `rank`.
    static std::byte* piece(const Chunk& chunk, std::byte* blocks, int rank) {
        return blocks + chunk.bytes(chunk.stride * rank);
    }
    void collect_shares(const Chunk& chunk, std::uint64_t number) const;
    void collect_blocks(const Chunk& chunk, std::uint64_t number) const;
    void collect_used(const Chunk& chunk, std::uint64_t number) const;
    template <class Own>
    void reduce_run(const Chunk& chunk, std::uint64_t number, std::int64_t first, std::int64_t count,
                    std::byte* out, const Own& own) const;

    bool idle() const { return collect_.request == first_request_ + requests_.size(); }

    Counters* counters_;
    std::byte* slots_;
    int rank_, ranks_;
    Sizes sizes_;
    std::deque<Request> requests_;
    std::uint64_t first_request_ = 0;  ///< number of requests_.front()
    bool stopped_ = false;
    bool in_progress_ = false;  ///< who uses sums may compute on a device that offers progress meanwhile
    Cursor stage_, reduce_, collect_;
    /// What all peers are known to have reached; spares reading their counters.
    std::uint64_t all_staged_ = 0, all_reduced_ = 0, all_collected_ = 0;
};

}  // namespace tutti
