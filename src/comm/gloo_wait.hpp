#pragma once
// Private to comm: how gloo's calls wait. gloo's own time-out counts time in which the job was suspended, and
// until it has passed nothing else can be looked at.

#include <gloo/transport/unbound_buffer.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "deadline.hpp"
#include "gloo_collectives.hpp"

namespace tutti {

/// A thread that ends gloo's waits ten times a second, so that who waits can look around and wait again.
class GlooPulse {
  public:
    GlooPulse();
    ~GlooPulse();
    GlooPulse(const GlooPulse&) = delete;
    GlooPulse& operator=(const GlooPulse&) = delete;

    /// The rank from which something has come into `buffer`, or that has taken something from it; -1 at a
    /// beat. Throws gloo's exceptions.
    int wait_receive(gloo::transport::UnboundBuffer& buffer);
    int wait_send(gloo::transport::UnboundBuffer& buffer);

  private:
    using Buffers = std::vector<gloo::transport::UnboundBuffer*>;
    /// Among those whose waits are ended, while it lives.
    class Entry;
    void beat();

    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    Buffers receiving_, sending_;
    std::thread thread_;
};

/// Nobody is to be waited for any more, though no connection has failed.
struct GlooGivenUp : std::runtime_error {
    using runtime_error::runtime_error;
};

/// For one wait: of a message, or of something else.
class GlooPatience {
  public:
    explicit GlooPatience(const GlooCall& call);

    /// Throws GlooGivenUp where nobody is to be waited for any more: a peer is known to be lost, the
    /// caller has given up, or the time-out has passed. missing(): what has not come, for the message,
    /// where the call does not go through hosts.
    void look(const std::function<std::string()>& missing);

  private:
    const GlooCall& call_;
    WaitClock waited_;
};

}  // namespace tutti
