#include "gloo_mesh.hpp"

#include <fmt/format.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <future>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>

#include "connect_watch.hpp"
#include "deadline.hpp"
#include "gloo_context.hpp"
#include "gloo_uncaught.hpp"
#include "network_interfaces.hpp"
#include "tutti/base/open_files.hpp"
#include "tutti/base/signals_blocked.hpp"

namespace tutti {
namespace {

PeerError not_connected(const GlooPlace& place, const std::string& to, const std::exception& error) {
    const std::string words = gloo_words(error);
    const bool at_limit = words.find(std::strerror(EMFILE)) != std::string::npos;
    return PeerError(
        "rank " + std::to_string(place.rank) + " on " + place.host + " cannot connect to " + to + ": " +
            words,
        at_limit ? too_many_open_files_remedy()
                 : "look for the first error of another rank, and check that no firewall stands between "
                   "the hosts; GLOO_SOCKET_IFNAME chooses the network interface");
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

/// A full mesh of TCP connections.
class Context final : public gloo::Context {
  public:
    Context(const std::shared_ptr<gloo::transport::Device>& device, const GlooPlace& place,
            std::chrono::milliseconds timeout)
        : gloo::Context(place.rank, place.size) {
        setTimeout(timeout);
        device_ = device;
        transportContext_ = device->createContext(place.rank, place.size);
        // connect_pair() looks at the time; a pair waits five times as long.
        transportContext_->setTimeout(gloo_timeout(0) / 5);
    }

    /// Every rank's host, by rank.
    std::vector<std::string> connect(const Exchange& exchange, const GlooPlace& place, double seconds) {
        // Every pair listens on a port of its own: one address for each peer, in the order of the ranks. The
        // host stands before them.
        std::string mine = place.host + '\0';
        std::vector<std::string> hosts;
        for (int peer = 0; peer < size; ++peer) {
            if (peer == rank) continue;
            const auto bytes = transportContext_->createPair(peer)->address().bytes();
            mine.append(bytes.begin(), bytes.end());
        }
        const std::vector<std::string> all = exchange(mine);
        WaitClock clock;
        const Deadline deadline(clock, seconds > 0 ? seconds : std::numeric_limits<double>::infinity());
        for (int peer = 0; peer < size; ++peer) {
            std::string theirs = all[static_cast<std::size_t>(peer)];
            const std::string& name = hosts.emplace_back(theirs.substr(0, theirs.find('\0')));
            theirs.erase(0, name.size() + 1);
            if (peer == rank) continue;
            const std::size_t bytes = theirs.size() / static_cast<std::size_t>(size - 1);
            const auto first =
                theirs.begin() +
                static_cast<std::ptrdiff_t>(bytes * static_cast<std::size_t>(rank < peer ? rank : rank - 1));
            try {
                connect_pair(*transportContext_->getPair(peer),
                             std::vector<char>(first, first + static_cast<std::ptrdiff_t>(bytes)), deadline);
            } catch (const std::exception& error) {
                throw not_connected(place, "rank " + std::to_string(peer) + " on " + name, error);
            }
        }
        transportContext_->setTimeout(getTimeout());
        return hosts;
    }
};

std::shared_ptr<gloo::transport::Device> open_device(const GlooPlace& place) {
    gloo::transport::tcp::attr attr;
    if (place.interface.empty()) {
        attr.hostname = place.address;
    } else {
        require_interface(place.interface, "GLOO_SOCKET_IFNAME", place.host);
        attr.iface = place.interface;
    }
    say_what_gloos_thread_throws([place](const std::exception& error) {
        return std::string(not_connected(place, "its peers", error).what());
    });
    try {
        const SignalsBlocked masked;
        return gloo::transport::tcp::CreateDevice(attr);
    } catch (const std::exception& error) {
        const std::string name = place.interface.empty() ? place.address : place.interface;
        throw LaunchError("rank " + std::to_string(place.rank) + " on " + place.host + " cannot listen at " +
                              name + ": " + gloo_words(error),
                          "set GLOO_SOCKET_IFNAME to a network interface that all hosts reach");
    }
}

std::shared_ptr<GlooMesh> connect(const GlooPlace& place, std::shared_ptr<gloo::transport::Device> device,
                                  std::shared_ptr<GlooJob> job, const Exchange& exchange, double timeout,
                                  const std::function<PeerWatch()>& watch) {
    allow_open_files(static_cast<std::size_t>(place.size));
    try {
        std::optional<ConnectWatch> connecting;
        if (!watch)
            connecting.emplace(fmt::format("rank {} on {}", place.rank, place.host),
                               [job] { return job->reason(); });
        const auto context = std::make_shared<Context>(device, place, gloo_timeout(timeout));
        const auto names =
            std::make_shared<const std::vector<std::string>>(context->connect(exchange, place, timeout));
        const auto presence = std::make_shared<GlooPresence>(context, job, names);
        auto hosts = GlooHosts::share(place, *names, presence, exchange);
        // A rank that is done and leaves at once would break the connections of those that still make theirs.
        exchange("");
        if (watch) job->watch = watch();
        return std::make_shared<GlooMesh>(place, std::move(device), context, std::move(job), names, presence,
                                          std::move(hosts));
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw not_connected(place, "its peers", error);
    }
}

}  // namespace

std::string GlooJob::reason() {
    const std::lock_guard lock(mutex);
    if (broken.empty()) broken = watch.departed();
    return broken;
}

void GlooJob::fail(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (!broken.empty()) return;
    broken = watch.departed(true);
    if (broken.empty()) broken = why;
}

void GlooJob::lose_connection(const std::string& why) {
    constexpr double patience = 0.5;
    const std::lock_guard lock(mutex);
    if (broken.empty()) broken = watch.departed_within(patience);
    if (broken.empty()) broken = why;
}

GlooMesh::GlooMesh(GlooPlace place, std::shared_ptr<gloo::transport::Device> device,
                   std::shared_ptr<gloo::Context> context, std::shared_ptr<GlooJob> job,
                   std::shared_ptr<const std::vector<std::string>> names,
                   std::shared_ptr<GlooPresence> presence, std::shared_ptr<GlooHosts> hosts)
    : place_(std::move(place)),
      device_(std::move(device)),
      names_(std::move(names)),
      presence_(std::move(presence)),
      hosts_(std::move(hosts)),
      queue_(std::make_shared<Queue>()) {
    queue_->context = std::move(context);
    queue_->job = std::move(job);
    const SignalsBlocked masked;
    worker_ = std::thread([queue = queue_] { work(*queue); });
}

GlooMesh::~GlooMesh() {
    {
        const std::lock_guard lock(queue_->mutex);
        *queue_->stopping = true;
    }
    queue_->changed.notify_all();
    worker_.join();
}

void GlooMesh::work(Queue& queue) {
    std::unique_lock lock(queue.mutex);
    for (;;) {
        queue.changed.wait(lock, [&] { return *queue.stopping || !queue.operations.empty(); });
        if (queue.operations.empty()) return;
        const auto operation = queue.operations.front();
        lock.unlock();
        std::string error = queue.job->reason();
        if (error.empty()) {
            ++queue.job->state.calls_and_one;
            try {
                operation->run();
                --queue.job->state.calls_and_one;
            } catch (const GlooGivenUp& given_up) {
                queue.job->fail(given_up.what());
                error = queue.job->reason();
            } catch (const std::exception& lost) {
                queue.job->lose_connection(gloo_words(lost));
                error = queue.job->reason();
            }
        }
        lock.lock();
        operation->run = {};
        operation->error = error;
        operation->done = true;
        queue.operations.pop_front();
        queue.changed.notify_all();
    }
}

GlooCall GlooMesh::next_call(std::uint64_t code, double timeout) {
    return {queue_->context, calls_++, timeout, names_, queue_->job, queue_->stopping, presence_, code};
}

std::shared_ptr<GlooMesh::Operation> GlooMesh::submit(std::function<void()> run) {
    auto operation = std::make_shared<Operation>();
    operation->run = std::move(run);
    {
        const std::lock_guard lock(queue_->mutex);
        queue_->operations.push_back(operation);
    }
    queue_->changed.notify_all();
    return operation;
}

bool GlooMesh::finished(const Operation& operation, double seconds, std::string& error) {
    std::unique_lock lock(queue_->mutex);
    if (seconds > 0)
        queue_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                 [&] { return operation.done; });
    error = operation.error;
    return operation.done;
}

std::shared_ptr<GlooMesh> GlooMesh::duplicate(const Exchange& exchange, double timeout) const {
    return connect(place_, device_, queue_->job, exchange, timeout, {});
}

std::string gloo_words(const std::exception& error) {
    const std::string text = error.what();
    const auto end = text.starts_with("[") ? text.find("] ") : std::string::npos;
    return end == std::string::npos ? text : text.substr(end + 2);
}

std::chrono::milliseconds gloo_timeout(double seconds) {
    constexpr double longest = 1000.0 * 24 * 3600;
    const double bounded = seconds > 0 ? std::min(seconds, longest) : longest;
    return std::chrono::milliseconds(std::max<std::int64_t>(1, std::llround(bounded * 1000)));
}

std::shared_ptr<GlooMesh> connect_gloo(const GlooPlace& place, const Exchange& exchange, double timeout,
                                       const std::function<PeerWatch()>& watch) {
    return connect(place, open_device(place), std::make_shared<GlooJob>(), exchange, timeout, watch);
}

}  // namespace tutti
