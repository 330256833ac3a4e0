#include "host_peers.hpp"

#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>

namespace tutti {
namespace {

struct Process {
    char state = '?';
    std::uint64_t started = 0;
};

std::string proc(std::int64_t process, const char* name) {
    return "/proc/" + std::to_string(process) + "/" + name;
}

/// Nothing where the process is not there.
std::optional<Process> look_at(std::int64_t process) {
    std::ifstream file(proc(process, "stat"));
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    // The program's name, in brackets, may hold anything; state is the third field, starttime the 22nd.
    const auto bracket = text.rfind(')');
    if (bracket == std::string::npos) return std::nullopt;
    std::istringstream fields(text.substr(bracket + 1));
    Process result;
    fields >> result.state;
    std::string skipped;
    for (int field = 4; field < 22; ++field) fields >> skipped;
    fields >> result.started;
    return fields ? std::optional(result) : std::nullopt;
}

bool has_ended(const ProcessPlace& place, const std::optional<Process>& now) {
    return !now || now->started != place.started || now->state == 'Z' || now->state == 'X';
}

}  // namespace

ProcessPlace place_of_process(std::int64_t process, const std::string& host) {
    struct stat space {};
    const auto now = look_at(process);
    if (!now || stat(proc(process, "ns/pid").c_str(), &space) != 0) return {};
    return {std::hash<std::string>()(host), space.st_ino, process, now->started};
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
        if (!has_ended(place, look_at(place.process))) peers_.push_back({static_cast<int>(i), place});
    }
}

std::string HostPeers::name(const Peer& peer) const {
    return "rank " + std::to_string(peer.rank) + " on " + host_ + ", process " +
           std::to_string(peer.place.process) + ", ";
}

std::string HostPeers::ended() const {
    for (const Peer& peer : peers_)
        if (has_ended(peer.place, look_at(peer.place.process))) return name(peer) + "has ended";
    return {};
}

std::string HostPeers::ended_or_stopped() const {
    for (const Peer& peer : peers_) {
        const auto now = look_at(peer.place.process);
        if (has_ended(peer.place, now)) return name(peer) + "has ended";
        if (now->state == 'T' || now->state == 't') return name(peer) + "is stopped";
    }
    return {};
}

}  // namespace tutti
