#pragma once
// Private to comm: all-reduce and reduce-scatter by messages between every two ranks.

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "mpi_transfer.hpp"
#include "tutti/comm/all_reduce_path.hpp"

namespace tutti {

/// For ranks on hosts of their own, a few dozen at most. A buffer goes in segments, many under way at once,
/// so that the network has work between two polls. Of each segment every rank owns a share: it receives what
/// the others have there, adds (combine_ranks), and sends the sum to all (a direct reduce-scatter and
/// all-gather: 2(p − 1)/p of the bytes leave each rank, the least that is possible). Between two ranks, and
/// for small segments, every rank sends all it has and adds by itself: the same bytes (two ranks) and one
/// round less. Messages are small enough for MPI to send them without asking the receiver first (its eager
/// protocol): otherwise each would wait for a poll on either side. A reduce-scatter is the first half of
/// that; all-gathers are left to MPI. An element's sum does not depend on where buffers or segments begin.
/// Ranks whose buffers differ in size get an error where a message shows it; where none does, the one with
/// more waits for the rest in vain, and the time-out tells of the ranks' calls (RollCall).
class ExchangeLane final : public AllReduceLane {
  public:
    struct Sizes {
        std::size_t message = 60 << 10;  ///< bytes, a multiple of 8; below the 64 KiB of Open MPI's TCP
        std::size_t flying = 4 << 20;    ///< bytes that may be on their way to this rank
        std::size_t whole = 8 << 10;     ///< segments up to this many bytes are sent whole
    };

    /// handle: rank, size and comm are read here; the communicator must live as long as a request.
    ExchangeLane(const Handle& handle, const Sizes& sizes);
    ~ExchangeLane() override;

    std::uint64_t issue(const TensorView& buffer, ReduceOp op) override;
    std::uint64_t issue_reduce_scatter(const TensorView& input, const TensorView& output,
                                       ReduceOp op) override;
    std::optional<std::uint64_t> issue_all_gather(const TensorView&, const TensorView&) override {
        return std::nullopt;
    }
    bool drives_mpi() const override { return true; }  // asks for messages
    bool finished(std::uint64_t request) const override { return finished_ > request; }
    std::vector<int> awaited() const override;
    const char* name() const override { return ways::direct_exchange; }

  protected:
    void work_off() override;
    void halt() override { stopped_ = true; }

  private:
    struct Request {
        std::byte* data;
        std::int64_t count;  ///< elements; of a block in a reduce-scatter
        DType dtype;
        ReduceOp op;
        std::byte* output = nullptr;  ///< of a reduce-scatter; null: an all-reduce
    };
    struct Segment {
        std::byte* data = nullptr;
        std::int64_t count = 0;   ///< elements; of each block in a reduce-scatter
        std::int64_t stride = 0;  ///< from one block to the next in a reduce-scatter, else 0
        std::byte* output = nullptr;
        std::size_t element_bytes = 0;
        DType dtype = DType::f32;
        ReduceOp op = ReduceOp::sum;
        bool whole = false;
        bool last = false;  ///< of its request
        std::vector<MPI_Request> messages;
        std::vector<std::byte> received;  ///< the others' part of what this rank adds, by rank

        std::size_t bytes(std::int64_t elements) const {
            return static_cast<std::size_t>(elements) * element_bytes;
        }
    };
    struct Share {
        std::int64_t first, count;
    };

    void check(int code, const char* call) const;
    Share share(const Segment& segment, int rank) const;
    Share added_here(const Segment& segment) const;
    void send(Segment& segment, const Share& part, int to, int tag);
    void receive(Segment& segment, std::byte* to, std::size_t bytes, int from, int tag);
    /// Throws PeerError where a rank has sent another number of bytes than this one expects.
    bool arrived(Segment& segment, int round);
    void check_sizes(const Segment& segment, int round, int code) const;
    int in_world(int rank) const;
    bool try_post();
    bool try_add();
    bool try_finish();
    void add(Segment& segment) const;
    static int tag(std::uint64_t segment, int round);

    MPI_Comm comm_;
    int rank_, ranks_, world_rank_;
    std::shared_ptr<Job> job_;
    std::shared_ptr<Lanes> lanes_;
    Sizes sizes_;
    std::size_t window_;  ///< segments
    std::deque<Request> requests_;
    std::int64_t posted_elements_ = 0;  ///< of requests_.front()
    std::deque<Segment> segments_;      ///< under way; the first is the oldest
    std::vector<Segment> spare_;        ///< whose memory is used again
    std::vector<MPI_Status> statuses_;  ///< of one segment's messages
    std::uint64_t first_segment_ = 0;
    std::size_t added_ = 0;  ///< of segments_, how many have been added up
    std::uint64_t issued_ = 0, finished_ = 0;
    bool stopped_ = false;
};

/// Null where it does not pay: with more than most_exchanging_ranks ranks. Not collective.
std::shared_ptr<AllReduceLane> make_exchange_lane(const std::shared_ptr<const Handle>& handle);

}  // namespace tutti
