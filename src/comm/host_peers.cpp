#include "host_peers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <sstream>
#include <string_view>

namespace tutti {
namespace {

struct PeerProcess {
    /// `hidden`: /proc cannot tell, as where this process may open no more files.
    enum class Seen { yes, ended, hidden } seen = Seen::hidden;
    char state = '?';
    std::uint64_t started = 0;
};

std::string proc(std::int64_t process, const char* name) {
    return "/proc/" + std::to_string(process) + "/" + name;
}

/// False where there is no /proc, or one of another namespace, whose numbers are of other processes.
bool proc_is_ours() {
    std::array<char, 24> number{};
    const ssize_t length = readlink("/proc/self", number.data(), number.size());
    return length > 0 &&
           std::string_view(number.data(), static_cast<std::size_t>(length)) == std::to_string(getpid());
}

PeerProcess state_of(std::int64_t process) {
    PeerProcess result;
    std::array<char, 1024> text{};  // its one line is at most half as long
    ssize_t length = -1;
    const int file = open(proc(process, "stat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) length = read(file, text.data(), text.size());
    const int problem = errno;
    if (file >= 0) close(file);
    if (length < 0) {
        if ((problem == ENOENT || problem == ESRCH) && proc_is_ours()) result.seen = PeerProcess::Seen::ended;
        return result;
    }
    // The program's name, in brackets, may hold anything; state is the third field, starttime the 22nd.
    const std::string line(text.data(), static_cast<std::size_t>(length));
    const auto bracket = line.rfind(')');
    if (bracket == std::string::npos) return result;
    std::istringstream fields(line.substr(bracket + 1));
    fields >> result.state;
    std::string skipped;
    for (int field = 4; field < 22; ++field) fields >> skipped;
    fields >> result.started;
    if (fields) result.seen = PeerProcess::Seen::yes;
    return result;
}

bool has_ended(const ProcessPlace& place, const PeerProcess& now) {
    if (now.seen != PeerProcess::Seen::yes) return now.seen == PeerProcess::Seen::ended;
    return now.started != place.started || now.state == 'Z' || now.state == 'X';
}

bool is_stopped(const PeerProcess& now) {
    return now.seen == PeerProcess::Seen::yes && (now.state == 'T' || now.state == 't');
}

}  // namespace

ProcessPlace place_of_process(std::int64_t process, const std::string& host) {
    struct stat space {};
    if (!proc_is_ours()) return {};
    const PeerProcess now = state_of(process);
    if (now.seen != PeerProcess::Seen::yes || stat(proc(process, "ns/pid").c_str(), &space) != 0) return {};
    return {std::hash<std::string>()(host), space.st_ino, process, now.started};
}

HostPeers::HostPeers(int rank, std::string host, const std::vector<ProcessPlace>& places)
    : host_(std::move(host)) {
    const ProcessPlace& own = places[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < places.size(); ++i) {
        const ProcessPlace& place = places[i];
        if (static_cast<int>(i) == rank || place.process == 0 || place.host != own.host ||
            place.namespace_ != own.namespace_)
            continue;
        // What cannot be seen now (another user's /proc, mounted with hidepid) cannot be seen to end.
        const PeerProcess now = state_of(place.process);
        if (now.seen == PeerProcess::Seen::yes && !has_ended(place, now))
            peers_.push_back({static_cast<int>(i), place});
    }
}

std::string HostPeers::name(const Peer& peer) const {
    return "rank " + std::to_string(peer.rank) + " on " + host_ + ", process " +
           std::to_string(peer.place.process) + ", ";
}

std::chrono::milliseconds HostPeers::interval() const {
    using std::chrono::milliseconds;
    return std::max(milliseconds(200), milliseconds(20 * static_cast<std::int64_t>(peers_.size())));
}

std::string HostPeers::ended() const {
    for (const Peer& peer : peers_)
        if (has_ended(peer.place, state_of(peer.place.process))) return name(peer) + "has ended";
    return {};
}

std::string HostPeers::ended_or_stopped() const {
    for (const Peer& peer : peers_) {
        const PeerProcess now = state_of(peer.place.process);
        if (has_ended(peer.place, now)) return name(peer) + "has ended";
        if (is_stopped(now)) return name(peer) + "is stopped";
    }
    return {};
}

}  // namespace tutti
