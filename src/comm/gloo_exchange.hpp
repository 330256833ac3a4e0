#pragma once
// Private to comm: messages among some ranks of a gloo context.

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gloo_collectives.hpp"

namespace tutti {

/// Next to the prefixes of gloo's own collectives (gloo/types.h).
enum class GlooSlot : std::uint8_t { gather = 0x40, scatter, pair, root, barrier, presence, greeting };

/// Bytes of a buffer.
struct GlooPart {
    std::size_t first, bytes;
};

/// Messages of one call that are under way at once, out of `from` and into `to`; those of one slot between
/// two ranks arrive in their order. The buffers must live until wait() has returned, or are given up:
/// nothing comes into the memory of one that is gone.
class GlooMessages {
  public:
    GlooMessages(const GlooCall& call, GlooSlot slot, gloo::transport::UnboundBuffer& from,
                 gloo::transport::UnboundBuffer& to);

    /// Nothing is sent of no bytes.
    void send(int rank, const GlooPart& part);
    void receive(int rank, const GlooPart& part);
    /// Until all have come and gone. Throws as GlooPatience::look, and gloo's exceptions with the ranks from
    /// which nothing has come.
    void wait();

  private:
    const GlooCall& call_;
    std::uint64_t slot_;
    gloo::transport::UnboundBuffer& from_;
    gloo::transport::UnboundBuffer& to_;
    std::vector<int> awaited_, taking_;
};

/// Every rank of the group sends `outgoing(other)` to each other and receives `incoming(other)`, where others
/// are places of the group.
template <class Outgoing, class Incoming>
void post(GlooMessages& messages, const GlooGroup& group, const Outgoing& outgoing,
          const Incoming& incoming) {
    const int size = group.size();
    for (int other = 1; other < size; ++other) {  // not all to one rank at once
        const int source = (group.own + size - other) % size, target = (group.own + other) % size;
        messages.receive(group.rank(source), incoming(source));
        messages.send(group.rank(target), outgoing(target));
    }
}

/// One segment of an all-reduce after another. Several such objects may have segments under way at once.
class GlooSegment {
  public:
    GlooSegment(const GlooCall& call, const GlooGroup& group, ReduceOp op)
        : call_(call), group_(group), op_(op) {}

    /// Sends the own part, in place of which sums are to come.
    void start(const TensorView& segment);
    /// Waits for the others' and adds; the sums are on their way then.
    void add();
    /// Waits for the sums.
    void finish();

  private:
    GlooPart part_of(int place) const;

    const GlooCall& call_;
    const GlooGroup& group_;
    ReduceOp op_;
    TensorView segment_;
    bool whole_ = false;  ///< everybody sends all and adds by itself
    std::vector<std::byte> received_;
    std::unique_ptr<gloo::transport::UnboundBuffer> data_, others_;
    std::unique_ptr<GlooMessages> messages_;
};

}  // namespace tutti
