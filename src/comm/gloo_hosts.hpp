#pragma once
// Private to comm: gloo's collectives of several ranks on each of several hosts.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "equal_hosts.hpp"
#include "gloo_collectives.hpp"
#include "gloo_mesh.hpp"
#include "gloo_presence.hpp"
#include "shared_all_reduce.hpp"
#include "shared_memory.hpp"

namespace tutti {

/// As TwoLevelLane, with the same sums, by a thread that may block: what leaves a host is the sum of its
/// ranks, once, and each rank sends its share of that to the ranks in its place on the other hosts. Pieces of
/// a buffer pass the same stages in the same order on every rank, a few of them on the network at once, so
/// one region of shared memory serves them all.
class GlooHosts {
  public:
    /// Null, on every rank, where there are no equal_hosts, or too many or too large ones, or where the ranks
    /// of a host cannot share memory. Collective. hosts: by rank, names.
    static std::shared_ptr<GlooHosts> share(const GlooPlace& place, const std::vector<std::string>& hosts,
                                            std::shared_ptr<GlooPresence> presence, const Exchange& exchange);

    GlooHosts(EqualHosts layout, int rank, std::unique_ptr<SharedMemory> memory,
              std::shared_ptr<GlooPresence> presence);

    void all_reduce(GlooCall call, const TensorView& buffer, ReduceOp op);
    void reduce_scatter(GlooCall call, const TensorView& input, const TensorView& output, ReduceOp op);
    /// Not where a host's ranks do not follow one another.
    bool gathers() const { return layout_.in_blocks(); }
    void all_gather(GlooCall call, const TensorView& input, const TensorView& output);

  private:
    /// Of a buffer that is reduced: every rank of a host owns a block of it, or, of a small one, all.
    struct Piece {
        TensorView all, mine;
        bool whole;
    };
    std::vector<Piece> pieces_of(const TensorView& buffer) const;
    void scatter(const GlooCall& call, const Piece& piece, ReduceOp op);
    void gather(const GlooCall& call, const Piece& piece);
    /// Until the request has gone through shared memory.
    void finish(const GlooCall& call, std::uint64_t request);
    void require_peers();

    EqualHosts layout_;
    int host_, place_;
    GlooGroup across_;  ///< the ranks in the same place, by host
    std::unique_ptr<SharedMemory> memory_;
    SharedAllReduce shared_;
    std::shared_ptr<GlooPresence> presence_;
};

}  // namespace tutti
