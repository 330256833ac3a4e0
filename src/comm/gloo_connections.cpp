#include "gloo_connections.hpp"

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/types.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "deadline.hpp"
#include "gloo_context.hpp"
#include "gloo_exchange.hpp"
#include "tutti/base/open_files.hpp"
#include "tutti/base/signals_blocked.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

constexpr int most_attempts = 5;
/// Seconds; all ranks have made their connections by then, so that each greeting is under way.
constexpr double patience_for_greetings = 3;
const std::uint64_t slot =
    static_cast<std::uint64_t>(gloo::Slot::build(static_cast<std::uint8_t>(GlooSlot::greeting), 0));

/// Connecting has failed so that another attempt may help.
struct Disturbed : PeerError {
    using PeerError::PeerError;
};

const char* remedy() {
    return "look for the first error of another rank, and check that no firewall stands between the hosts; "
           "GLOO_SOCKET_IFNAME chooses the network interface";
}

std::string no_connection(const GlooPlace& place, const std::string& to, const std::string& why) {
    return "rank " + std::to_string(place.rank) + " on " + place.host + " cannot connect to " + to + ": " +
           why;
}

bool is_at_limit_of_files(const std::string& words) {
    return words.find(std::strerror(EMFILE)) != std::string::npos;
}

/// gloo's own time-out would count time in which this process was suspended.
void connect_pair(gloo::transport::Pair& pair, const std::vector<char>& to, const Deadline& deadline) {
    std::packaged_task<void()> connect([&] { pair.connect(to); });
    std::future<void> done = connect.get_future();
    std::thread thread;
    {
        const SignalsBlocked masked;
        thread = std::thread(std::move(connect));
    }
    bool in_time = true;
    while (in_time && done.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
        in_time = !deadline.passed();
    if (!in_time) pair.close();  // its wait ends
    thread.join();
    if (!in_time) throw std::runtime_error("timed out");
    done.get();
}

// A rank tells the others its host, a zero, and the addresses at which it listens for each of them, which are
// of one size, in the order of the ranks.

std::string host_in(const std::string& text) {
    return text.substr(0, text.find('\0'));
}

/// At which `rank` listens for `peer`.
std::string address_in(const std::string& text, int rank, int peer, int size) {
    const std::size_t first = text.find('\0') + 1;
    const std::size_t bytes = (text.size() - first) / static_cast<std::size_t>(size - 1);
    return text.substr(first + bytes * static_cast<std::size_t>(peer < rank ? peer : peer - 1), bytes);
}

/// Whether a rank at that address connects to one at the other, as gloo decides it: from the greater to the
/// lesser one, as they lie in memory, but ports as numbers in network order.
bool connects(const std::string& from, const std::string& to) {
    const auto key = [](const std::string& text) {
        const gloo::transport::tcp::Address address(std::vector<char>(text.begin(), text.end()));
        const sockaddr_storage& socket = address.getSockaddr();
        const auto bytes = [](const auto& value) {
            return std::string(reinterpret_cast<const char*>(&value), sizeof value);
        };
        if (socket.ss_family == AF_INET6) {
            const auto& v6 = reinterpret_cast<const sockaddr_in6&>(socket);
            return std::pair(bytes(v6.sin6_addr), v6.sin6_port);
        }
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(socket);
        return std::pair(bytes(v4.sin_addr), v4.sin_port);
    };
    return key(from) > key(to);
}

/// A full mesh of TCP connections.
class Context final : public gloo::Context {
  public:
    Context(const std::shared_ptr<gloo::transport::Device>& device, GlooPlace place,
            std::chrono::milliseconds timeout)
        : gloo::Context(place.rank, place.size), place_(std::move(place)) {
        setTimeout(timeout);
        device_ = device;
        transportContext_ = device->createContext(rank, size);
        // connect_pair() looks at the time; a pair waits five times as long.
        transportContext_->setTimeout(gloo_timeout(0) / 5);
    }

    /// Before everything else; collective.
    void listen(const Exchange& exchange) {
        std::string mine = place_.host + '\0';
        for (int peer = 0; peer < size; ++peer) {
            if (peer == rank) continue;
            const auto bytes = transportContext_->createPair(peer)->address().bytes();
            mine.append(bytes.begin(), bytes.end());
        }
        const auto all = exchange(mine);
        std::vector<std::string> names;
        for (int peer = 0; peer < size; ++peer) {
            const std::string& text = all[static_cast<std::size_t>(peer)];
            names.push_back(host_in(text));
            own_.push_back(peer == rank ? "" : address_in(mine, rank, peer, size));
            theirs_.push_back(peer == rank ? "" : address_in(text, peer, rank, size));
        }
        hosts_ = std::make_shared<const std::vector<std::string>>(std::move(names));
    }
    const std::shared_ptr<const std::vector<std::string>>& hosts() const { return hosts_; }

    /// To those to which this rank connects. Throws Disturbed, and what no other attempt would mend.
    void connect(const Deadline& deadline) {
        try {
            connect_where([&](int peer) { return connects(own(peer), theirs(peer)); }, deadline);
        } catch (const Disturbed& timed_out) {
            if (deadline.passed()) throw PeerError(timed_out.what());
            throw;
        }
    }
    /// When all have: the others have been accepted by now, or will be at once.
    void accept(const Deadline& deadline) {
        connect_where([&](int peer) { return !connects(own(peer), theirs(peer)); }, deadline);
        transportContext_->setTimeout(getTimeout());
    }

    /// What a rank says first is at which address it listened for the other. Throws Disturbed, and gloo's
    /// exceptions.
    void greet(const Deadline& deadline, GlooPulse& pulse) {
        if (size == 1) return;
        const std::size_t bytes = own(rank == 0 ? 1 : 0).size();
        std::vector<char> said(bytes * static_cast<std::size_t>(size)), heard(said.size());
        const auto place_of = [&](int peer) { return bytes * static_cast<std::size_t>(peer); };
        const auto saying = createUnboundBuffer(said.data(), said.size()),
                   hearing = createUnboundBuffer(heard.data(), heard.size());
        for_peers([&](int peer) {
            std::ranges::copy(own(peer), said.data() + place_of(peer));
            hearing->recv(peer, slot, place_of(peer), bytes);
            saying->send(peer, slot, place_of(peer), bytes);
        });
        for (int left = size - 1; left > 0 && !deadline.passed();)
            if (pulse.wait_receive(*hearing) >= 0) --left;
        for (int left = size - 1; left > 0 && !deadline.passed();)
            if (pulse.wait_send(*saying) >= 0) --left;
        std::vector<int> strange;
        for_peers([&](int peer) {
            if (std::string_view(heard.data() + place_of(peer), bytes) != theirs(peer))
                strange.push_back(peer);
        });
        if (!strange.empty())
            throw disturbed(list_of_ranks(strange, *hosts_),
                            "nothing, or not theirs, came over the connection");
    }

    Disturbed disturbed(const std::string& peers, const std::string& why) const {
        return Disturbed(no_connection(place_, peers, why), remedy());
    }

  private:
    template <class Work>
    void for_peers(const Work& work) const {
        for (int peer = 0; peer < size; ++peer)
            if (peer != rank) work(peer);
    }
    /// At which the one listens for the other.
    const std::string& own(int peer) const { return own_[static_cast<std::size_t>(peer)]; }
    const std::string& theirs(int peer) const { return theirs_[static_cast<std::size_t>(peer)]; }

    /// Goes on where one fails: for the others' sake, who may wait for this rank's connection.
    template <class Which>
    void connect_where(const Which& which, const Deadline& deadline) {
        std::optional<Disturbed> first;
        for_peers([&](int peer) {
            if (!which(peer) || (first && deadline.passed())) return;
            const std::string& to = theirs(peer);
            try {
                connect_pair(*transportContext_->getPair(peer), {to.begin(), to.end()}, deadline);
            } catch (const std::exception& error) {
                const std::string name = name_of_rank(peer, *hosts_), words = gloo_words(error);
                if (is_at_limit_of_files(words)) throw not_connected(place_, name, error);
                if (!first) first.emplace(disturbed(name, words));
            }
        });
        if (first) throw Disturbed(*first);
    }

    const GlooPlace place_;
    std::vector<std::string> own_, theirs_;  ///< by rank
    std::shared_ptr<const std::vector<std::string>> hosts_;
};

/// Collective: what `work` throws as Disturbed here, else on the first rank where it does; else nothing.
template <class Work>
std::string disturbance(const Exchange& exchange, const Work& work) {
    std::string mine;
    try {
        work();
    } catch (const Disturbed& disturbed) {
        mine = disturbed.what();
    }
    const auto all = exchange(mine);
    if (!mine.empty()) return mine;
    const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
    return first == all.end() ? "" : *first;
}

}  // namespace

GlooConnections connect_all(const std::shared_ptr<gloo::transport::Device>& device, const GlooPlace& place,
                            const Exchange& exchange, double timeout, const std::shared_ptr<GlooJob>& job) {
    WaitClock clock;
    std::string problem;
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        const auto context = std::make_shared<Context>(device, place, gloo_timeout(timeout));
        context->listen(exchange);
        problem = disturbance(exchange, [&] {
            context->connect({clock, timeout > 0 ? timeout : std::numeric_limits<double>::infinity()});
        });
        std::shared_ptr<GlooPresence> presence;
        if (problem.empty())
            problem = disturbance(exchange, [&] {
                const Deadline soon(clock, patience_for_greetings);
                try {
                    context->accept(soon);
                    context->greet(soon, job->pulse);
                    presence = std::make_shared<GlooPresence>(context, job, context->hosts());
                } catch (const Disturbed&) {
                    throw;
                } catch (const std::exception& error) {
                    if (is_at_limit_of_files(gloo_words(error))) throw;
                    throw context->disturbed("its peers", gloo_words(error));
                }
            });
        if (problem.empty()) return {context, context->hosts(), std::move(presence)};
    }
    throw PeerError(problem);
}

PeerError not_connected(const GlooPlace& place, const std::string& to, const std::exception& error) {
    const std::string words = gloo_words(error);
    return PeerError(no_connection(place, to, words),
                     is_at_limit_of_files(words) ? too_many_open_files_remedy() : remedy());
}

}  // namespace tutti
