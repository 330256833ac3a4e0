#include "gloo_exchange.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "combine.hpp"
#include "gloo_context.hpp"
#include "gloo_wait.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

/// Segments up to this size are sent whole: one round instead of two. With many ranks that would be too much.
constexpr std::int64_t whole_segment_bytes = 8 << 10;
constexpr int most_ranks_for_whole = 8;

/// Until next() has given each of these ranks, or -1 at a beat; missing(): what is said of those that are
/// left. Where several messages came between two looks, gloo gives the last one's rank for each: the others
/// are counted as unnamed.
void wait_for_all(std::vector<int>& ranks, std::size_t& unnamed, const std::function<int()>& next,
                  GlooPatience& patience, const std::function<std::string()>& missing) {
    while (ranks.size() > unnamed) {
        int rank = -1;
        try {
            rank = next();
        } catch (const std::exception& error) {
            throw std::runtime_error(gloo_words(error) + ": " + missing());
        }
        if (rank < 0)
            patience.look(missing);
        else if (std::erase(ranks, rank) == 0)
            ++unnamed;
    }
    ranks.clear();
}

/// "rank 3 on node7", or "1 of ranks 1, 3" where it is not known which.
std::string name_those_left(std::vector<int> ranks, std::size_t unnamed,
                            const std::vector<std::string>& hosts) {
    std::ranges::sort(ranks);
    const std::string names = list_of_ranks(ranks, hosts);
    return unnamed == 0 ? names : std::to_string(ranks.size() - unnamed) + " of " + names;
}

/// A message of another size would be taken for this one's if it is no longer: so unlike calls have unlike
/// slots.
std::uint64_t slot_of(GlooSlot slot, const GlooCall& call) {
    const std::uint64_t spread = call.code * 0x9e3779b97f4a7c15u;
    return static_cast<std::uint64_t>(slot) << 56 | static_cast<std::uint64_t>(call.number) << 24 |
           spread >> 40;
}

}  // namespace

GlooMessages::GlooMessages(const GlooCall& call, GlooSlot slot, gloo::transport::UnboundBuffer& from,
                           gloo::transport::UnboundBuffer& to)
    : call_(call), slot_(slot_of(slot, call)), from_(from), to_(to) {}

void GlooMessages::send(int rank, const GlooPart& part) {
    if (part.bytes == 0) return;
    from_.send(rank, slot_, part.first, part.bytes);
    taking_.push_back(rank);
}

void GlooMessages::receive(int rank, const GlooPart& part) {
    if (part.bytes == 0) return;
    to_.recv(rank, slot_, part.first, part.bytes);
    awaited_.push_back(rank);
}

void GlooMessages::wait() {
    GlooPulse& pulse = call_.job->pulse;
    GlooPatience patience(call_);
    std::size_t unnamed = 0;
    wait_for_all(
        awaited_, unnamed, [&] { return pulse.wait_receive(to_); }, patience,
        [&] { return "nothing came from " + name_those_left(awaited_, unnamed, *call_.hosts); });
    unnamed = 0;
    wait_for_all(
        taking_, unnamed, [&] { return pulse.wait_send(from_); }, patience,
        [&] { return "nothing is taken by " + name_those_left(taking_, unnamed, *call_.hosts); });
}

GlooPart GlooSegment::part_of(int place) const {
    const std::int64_t count = segment_.count();
    const std::int64_t each = whole_ ? count : (count + group_.size() - 1) / group_.size();
    const std::int64_t first = whole_ ? 0 : std::min(each * place, count);
    const auto element = static_cast<std::int64_t>(size_of(segment_.dtype));
    return {static_cast<std::size_t>(first * element),
            static_cast<std::size_t>(std::min(each, count - first) * element)};
}

void GlooSegment::start(const TensorView& segment) {
    segment_ = segment;
    whole_ = group_.size() == 2 || (segment.bytes() <= static_cast<std::size_t>(whole_segment_bytes) &&
                                    group_.size() <= most_ranks_for_whole);
    const std::size_t bytes = part_of(group_.own).bytes;
    received_.resize(std::max<std::size_t>(1, bytes * static_cast<std::size_t>(group_.size())));
    data_ = call_.context->createUnboundBuffer(segment.data, segment.bytes());
    others_ = call_.context->createUnboundBuffer(received_.data(), received_.size());
    messages_ = std::make_unique<GlooMessages>(call_, GlooSlot::scatter, *data_, *others_);
    post(
        *messages_, group_, [&](int place) { return part_of(place); },
        [&](int place) {
            return GlooPart{bytes * static_cast<std::size_t>(place), bytes};
        });
}

void GlooSegment::add() {
    messages_->wait();
    const GlooPart mine = part_of(group_.own);
    combine_received(segment_.data + mine.first, received_.data(), group_.own, group_.size(),
                     static_cast<std::int64_t>(mine.bytes / size_of(segment_.dtype)), segment_.dtype, op_);
    if (whole_) return;
    messages_ = std::make_unique<GlooMessages>(call_, GlooSlot::gather, *data_, *data_);
    post(
        *messages_, group_, [&](int) { return mine; }, [&](int place) { return part_of(place); });
}

void GlooSegment::finish() {
    if (!whole_) messages_->wait();
}

}  // namespace tutti
