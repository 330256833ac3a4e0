#include "gloo_mesh.hpp"

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "gloo_context.hpp"
#include "network_interfaces.hpp"
#include "tutti/base/open_files.hpp"
#include "tutti/base/signals_blocked.hpp"

namespace tutti {
namespace {

PeerError not_connected(const GlooPlace& place, const std::string& to, const std::exception& error) {
    return PeerError("rank " + std::to_string(place.rank) + " on " + place.host + " cannot connect to " + to +
                         ": " + gloo_words(error),
                     "look for the first error of another rank, and check that no firewall stands between "
                     "the hosts; GLOO_SOCKET_IFNAME chooses the network interface");
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
        // A pair waits five times as long for its peer to come.
        transportContext_->setTimeout(std::max(timeout / 5, std::chrono::milliseconds(1)));
    }

    /// Every rank's host, by rank.
    std::vector<std::string> connect(const Exchange& exchange, const GlooPlace& place) {
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
                transportContext_->getPair(peer)->connect(
                    std::vector<char>(first, first + static_cast<std::ptrdiff_t>(bytes)));
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
        const auto context = std::make_shared<Context>(device, place, gloo_timeout(timeout));
        const auto names =
            std::make_shared<const std::vector<std::string>>(context->connect(exchange, place));
        auto hosts = GlooHosts::share(place, context, job, names, exchange);
        // A rank that is done and leaves at once would break the connections of those that still make theirs.
        exchange("");
        if (watch) job->watch = watch();
        return std::make_shared<GlooMesh>(place, std::move(device), context, std::move(job), names,
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

GlooMesh::GlooMesh(GlooPlace place, std::shared_ptr<gloo::transport::Device> device,
                   std::shared_ptr<gloo::Context> context, std::shared_ptr<GlooJob> job,
                   std::shared_ptr<const std::vector<std::string>> names, std::shared_ptr<GlooHosts> hosts)
    : place_(std::move(place)),
      device_(std::move(device)),
      names_(std::move(names)),
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
            ++queue.job->calls_and_one;
            try {
                operation->run();
                --queue.job->calls_and_one;
            } catch (const std::exception& caught) {
                queue.job->fail(gloo_words(caught));
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

GlooCall GlooMesh::next_call(double timeout) {
    return {queue_->context, calls_++, timeout, names_, queue_->job, queue_->stopping};
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
