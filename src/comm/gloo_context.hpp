#pragma once
// Private to comm: gloo's types, and the thread that runs its collectives.

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gloo_collectives.hpp"
#include "gloo_hosts.hpp"
#include "gloo_mesh.hpp"
#include "gloo_presence.hpp"
#include "gloo_wait.hpp"
#include "peer_watch.hpp"

namespace tutti {

/// What a mesh and its duplicates share: known to be lost for one, lost for all.
struct GlooJob {
    std::mutex mutex;
    std::string broken;  ///< why no peer can be waited for any more; empty while all is well
    bool noticed = false;
    PeerWatch watch;
    GlooPulse pulse;
    GlooState state;

    /// Why no peer can be waited for; empty while all is well.
    std::string reason();
    /// The first reason counts; a rank that is known to have ended is a better one than gloo's.
    void fail(const std::string& why);
    /// The same where a connection has failed, of which gloo does not say to whom: a rank that has ended is
    /// waited for to be named, half a second at most. Its connections close one after the other.
    void lose_connection(const std::string& why);
};

/// gloo's collectives block; a thread of the mesh runs them in the order of the calls, which is the same on
/// every rank. An operation is shared by that thread and by the caller's Work.
class GlooMesh {
  public:
    struct Operation {
        std::function<void()> run;
        bool done = false;  ///< guarded by the mesh, as is error
        std::string error;  ///< of the finished operation; empty when it succeeded
    };

    /// names: of the hosts, by rank. hosts: may be null.
    GlooMesh(GlooPlace place, std::shared_ptr<gloo::transport::Device> device,
             std::shared_ptr<gloo::Context> context, std::shared_ptr<GlooJob> job,
             std::shared_ptr<const std::vector<std::string>> names, std::shared_ptr<GlooPresence> presence,
             std::shared_ptr<GlooHosts> hosts);
    ~GlooMesh();
    GlooMesh(const GlooMesh&) = delete;
    GlooMesh& operator=(const GlooMesh&) = delete;

    const GlooPlace& place() const { return place_; }
    GlooJob& job() const { return *queue_->job; }

    /// The next call: its number is the same on every rank, because the order of calls is.
    GlooCall next_call(std::uint64_t code, double timeout);
    /// Null: all messages go between every two ranks.
    const std::shared_ptr<GlooHosts>& hosts() const { return hosts_; }
    std::shared_ptr<Operation> submit(std::function<void()> run);
    /// Waits at most `seconds`; true when the operation has finished, with its error.
    bool finished(const Operation& operation, double seconds, std::string& error);
    /// The same ranks, connected anew on the same device.
    std::shared_ptr<GlooMesh> duplicate(const Exchange& exchange, double timeout) const;

  private:
    struct Queue {
        std::shared_ptr<gloo::Context> context;
        std::shared_ptr<GlooJob> job;
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<std::shared_ptr<Operation>> operations;  ///< the first is running
        std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);
    };
    static void work(Queue& queue);

    GlooPlace place_;
    std::shared_ptr<gloo::transport::Device> device_;
    std::shared_ptr<const std::vector<std::string>> names_;
    std::shared_ptr<GlooPresence> presence_;
    std::shared_ptr<GlooHosts> hosts_;
    std::uint32_t calls_ = 0;
    std::shared_ptr<Queue> queue_;
    std::thread worker_;
};

/// gloo's words without the place in its sources: "Connection closed by peer [10.0.0.2]:4711".
std::string gloo_words(const std::exception& error);

/// gloo has no "for ever"; this is as good.
std::chrono::milliseconds gloo_timeout(double seconds);

}  // namespace tutti
