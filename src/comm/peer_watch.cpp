#include "peer_watch.hpp"

#include <array>
#include <thread>

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
constexpr char good_bye = '.';
constexpr char end_of_line = '\n';

/// Never waits: the few bytes fit into the connection's buffer, and a lost one needs no news.
void say(const TcpSocket& to, const std::string& words) {
    if (to) to.send_at_once(std::as_bytes(std::span(words)));
}

}  // namespace

PeerWatch::PeerWatch(int rank, std::vector<std::string> hosts, std::vector<TcpSocket> star)
    : mutex_(std::make_unique<std::mutex>()), hosts_(std::move(hosts)) {
    for (std::size_t seat = 0; seat < star.size(); ++seat)
        if (star[seat]) peers_.push_back({rank == 0 ? static_cast<int>(seat) : 0, std::move(star[seat])});
}

PeerWatch::~PeerWatch() {
    if (!departed_.empty()) return;
    for (const Peer& peer : peers_) say(peer.socket, std::string(1, good_bye));
}

std::string PeerWatch::departed(bool at_once) {
    if (!mutex_) return {};
    const std::lock_guard lock(*mutex_);
    return look(at_once);
}

std::string PeerWatch::look(bool at_once) {
    if (!departed_.empty() || peers_.empty()) return departed_;
    if (!at_once && Clock::now() < next_look_) return departed_;
    for (Peer& peer : peers_)
        if (departed_.empty()) departed_ = look_at(peer);
    next_look_ = Clock::now() + std::chrono::milliseconds(20);
    if (!departed_.empty())
        for (const Peer& peer : peers_) say(peer.socket, departed_ + end_of_line);
    return departed_;
}

std::string PeerWatch::departed_within(double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    std::string found;
    while ((found = departed(true)).empty() && !peers_.empty() && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return found;
}

std::string PeerWatch::look_at(Peer& peer) const {
    using namespace std::chrono_literals;
    const std::string name =
        "rank " + std::to_string(peer.rank) + " on " + hosts_[static_cast<std::size_t>(peer.rank)];
    if (peer.good_bye) return Clock::now() > peer.left + 5s ? name + " has ended without this call" : "";

    std::array<std::byte, 512> bytes{};
    for (;;) {
        const auto came = peer.socket.receive_some(bytes);
        if (!came) return name + " has ended";
        if (*came == 0) return {};
        peer.words.append(reinterpret_cast<const char*>(bytes.data()), *came);
        if (peer.words.front() == good_bye) {
            peer.good_bye = true;
            peer.left = Clock::now();
            return {};
        }
        const auto end = peer.words.find(end_of_line);
        if (end != std::string::npos) return peer.words.substr(0, end);
    }
}

}  // namespace tutti
