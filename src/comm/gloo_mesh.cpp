#include "gloo_mesh.hpp"

#include <fmt/format.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>

#include "connect_watch.hpp"
#include "gloo_connections.hpp"
#include "gloo_context.hpp"
#include "gloo_uncaught.hpp"
#include "network_interfaces.hpp"
#include "tutti/base/open_files.hpp"
#include "tutti/base/signals_blocked.hpp"

namespace tutti {
namespace {

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
        const auto [context, names, presence] = connect_all(device, place, exchange, timeout, job);
        auto hosts = GlooHosts::share(place, *names, presence, exchange);
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
