#include "gloo_hosts.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>

#include "combine.hpp"
#include "gloo_context.hpp"
#include "gloo_exchange.hpp"
#include "gloo_wait.hpp"

namespace tutti {
namespace {

/// What a rank owns of a piece, in bytes, and so the size of a message between two hosts.
constexpr std::size_t block_bytes = 256 << 10;
/// Pieces that are on the network while the next goes through shared memory.
constexpr std::size_t under_way = 3;
/// Pieces up to this many bytes are summed whole, as TwoLevelLane does.
constexpr std::size_t whole_piece_bytes = 4 << 10;

TensorView part(const TensorView& whole, std::int64_t first, std::int64_t count) {
    return {whole.data + first * static_cast<std::int64_t>(size_of(whole.dtype)), whole.dtype, Shape{count}};
}

/// By rank, the lowest rank with the same name.
std::vector<int> numbers_of(const std::vector<std::string>& hosts) {
    std::vector<int> numbers;
    for (const std::string& host : hosts)
        numbers.push_back(static_cast<int>(std::ranges::find(hosts, host) - hosts.begin()));
    return numbers;
}

}  // namespace

std::shared_ptr<GlooHosts> GlooHosts::share(const GlooPlace& place, const std::vector<std::string>& hosts,
                                            std::shared_ptr<GlooPresence> presence,
                                            const Exchange& exchange) {
    auto layout = equal_hosts(numbers_of(hosts));
    if (!layout || layout->local_size == 1 || layout->local_size > most_shared_ranks ||
        layout->hosts > most_equal_hosts)
        return nullptr;
    const int first = layout->rank(layout->host_of(place.rank), 0);
    auto memory = std::make_unique<SharedMemory>(SharedAllReduce::region_bytes(layout->local_size));
    SharedMemory::Offer offer;
    bool mapped = place.rank == first && memory->create(place.host, offer);
    const auto offers = exchange({reinterpret_cast<const char*>(&offer), sizeof offer});
    if (place.rank != first) {
        std::memcpy(&offer, offers[static_cast<std::size_t>(first)].data(), sizeof offer);
        mapped = memory->open(place.host, offer);
    }
    const auto all = exchange(mapped ? "mapped" : "");
    memory->close_file();
    if (std::ranges::find(all, "") != all.end()) return nullptr;
    return std::make_shared<GlooHosts>(std::move(*layout), place.rank, std::move(memory),
                                       std::move(presence));
}

GlooHosts::GlooHosts(EqualHosts layout, int rank, std::unique_ptr<SharedMemory> memory,
                     std::shared_ptr<GlooPresence> presence)
    : layout_(std::move(layout)),
      host_(layout_.host_of(rank)),
      place_(layout_.place_of(rank)),
      memory_(std::move(memory)),
      shared_(memory_->data(), place_, layout_.local_size),
      presence_(std::move(presence)) {
    across_.own = host_;
    for (int host = 0; host < layout_.hosts; ++host) across_.ranks.push_back(layout_.rank(host, place_));
}

std::vector<GlooHosts::Piece> GlooHosts::pieces_of(const TensorView& buffer) const {
    const std::size_t element = size_of(buffer.dtype);
    const std::int64_t ranks = layout_.local_size, count = buffer.count();
    const auto largest = static_cast<std::int64_t>(block_bytes / element);
    std::vector<Piece> pieces;
    for (std::int64_t first = 0; first < count;) {
        const std::int64_t rest = count - first;
        const bool whole = rest < ranks || static_cast<std::size_t>(rest) * element <= whole_piece_bytes;
        const std::int64_t each = whole ? rest : std::min(rest / ranks, largest);
        const TensorView all = part(buffer, first, whole ? rest : each * ranks);
        pieces.push_back({all, whole ? all : part(all, each * place_, each), whole});
        first += all.count();
    }
    return pieces;
}

void GlooHosts::scatter(const GlooCall& call, const Piece& piece, ReduceOp op) {
    finish(call, piece.whole ? shared_.issue(piece.all, op)
                             : shared_.issue_reduce_scatter(piece.all, piece.mine, op));
}

void GlooHosts::gather(const GlooCall& call, const Piece& piece) {
    if (!piece.whole) finish(call, shared_.issue_all_gather(piece.mine, piece.all).value());
}

void GlooHosts::all_reduce(GlooCall call, const TensorView& buffer, ReduceOp op) {
    call.through_hosts = true;
    const std::vector<Piece> pieces = pieces_of(buffer);
    const std::size_t count = pieces.size();
    // Between two hosts sums are complete when they have been added.
    const std::size_t added = std::min(under_way, count), gathered = added * (layout_.hosts == 2 ? 1 : 2);
    std::vector<GlooSegment> segments;
    for (std::size_t i = 0; i <= gathered; ++i) segments.emplace_back(call, across_, op);
    const auto segment = [&](std::size_t number) -> GlooSegment& {
        return segments[number % segments.size()];
    };
    for (std::size_t i = 0; i < count + gathered; ++i) {
        if (i < count) {
            scatter(call, pieces[i], op);
            segment(i).start(pieces[i].mine);
        }
        if (i >= added && i - added < count) segment(i - added).add();
        if (i >= gathered) {
            segment(i - gathered).finish();
            gather(call, pieces[i - gathered]);
        }
    }
}

void GlooHosts::reduce_scatter(GlooCall call, const TensorView& input, const TensorView& output,
                               ReduceOp op) {
    call.through_hosts = true;
    const std::size_t bytes = output.bytes(), all = bytes * static_cast<std::size_t>(layout_.hosts);
    const std::int64_t count = output.count(), of_host = count * layout_.local_size;
    TensorView blocks = input;
    std::vector<std::byte> sorted, sums(all), received(all);
    if (!layout_.in_blocks()) {
        sorted.resize(input.bytes());
        layout_.sort_blocks(input.data, bytes, sorted.data());
        blocks.data = sorted.data();
    }
    const TensorView mine{sums.data(), input.dtype, Shape{count * layout_.hosts}};
    const auto of = [&](int host) { return GlooPart{bytes * static_cast<std::size_t>(host), bytes}; };
    const auto from = call.context->createUnboundBuffer(sums.data(), all);
    const auto to = call.context->createUnboundBuffer(received.data(), all);
    GlooMessages messages(call, GlooSlot::scatter, *from, *to);
    for (int other = 1; other <= layout_.hosts; ++other) {  // this host's last: the network is at work then
        const int host = (host_ + other) % layout_.hosts;
        finish(call, shared_.issue_reduce_scatter(part(blocks, of_host * host, of_host),
                                                  part(mine, count * host, count), op));
        if (host == host_) break;
        messages.receive(across_.rank(host), of(host));
        messages.send(across_.rank(host), of(host));
    }
    messages.wait();
    std::memcpy(output.data, sums.data() + of(host_).first, bytes);
    combine_received(output.data, received.data(), host_, layout_.hosts, count, output.dtype, op);
}

void GlooHosts::all_gather(GlooCall call, const TensorView& input, const TensorView& output) {
    call.through_hosts = true;
    const std::int64_t count = input.count(), of_host = count * layout_.local_size;
    const auto block_of = [&](int host) { return part(output, count * across_.rank(host), count); };
    const auto bytes_of = [&](int host) {
        return GlooPart{input.bytes() * static_cast<std::size_t>(across_.rank(host)), input.bytes()};
    };
    if (input.data != block_of(host_).data) std::memcpy(block_of(host_).data, input.data, input.bytes());
    const auto data = call.context->createUnboundBuffer(output.data, output.bytes());
    GlooMessages messages(call, GlooSlot::gather, *data, *data);
    post(
        messages, across_, [&](int) { return bytes_of(host_); }, bytes_of);
    for (int other = 0; other < layout_.hosts; ++other) {  // this host's first, while the others' come
        if (other == 1) messages.wait();
        const int host = (host_ + other) % layout_.hosts;
        finish(call, shared_.issue_all_gather(block_of(host), part(output, of_host * host, of_host)).value());
    }
}

void GlooHosts::finish(const GlooCall& call, std::uint64_t request) {
    using Clock = std::chrono::steady_clock;
    // A peer at the same call is there within that; else it is at other work, as may be this rank's threads.
    constexpr int yields = 100;
    constexpr std::chrono::microseconds nap(50);
    GlooPatience patience(call);
    auto next_look = Clock::now() + std::chrono::milliseconds(20);
    for (int polls = 0;; ++polls) {
        shared_.progress();
        if (shared_.finished(request)) return;
        if (polls < yields) {
            sched_yield();
            continue;
        }
        std::this_thread::sleep_for(nap);
        if (Clock::now() < next_look) continue;
        next_look = Clock::now() + std::chrono::milliseconds(20);
        require_peers();
        patience.look([] { return std::string(); });
    }
}

void GlooHosts::require_peers() {
    for (const int place : shared_.awaited()) try {
            presence_->require_connection(layout_.rank(host_, place));
        } catch (const std::exception&) {
            // It may have done its part and gone.
            shared_.progress();
            const auto still = shared_.awaited();
            if (std::ranges::find(still, place) != still.end()) throw;
        }
}

}  // namespace tutti
