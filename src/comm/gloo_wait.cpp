#include "gloo_wait.hpp"

#include <algorithm>
#include <chrono>

#include "gloo_context.hpp"
#include "tutti/base/signals_blocked.hpp"

namespace tutti {
namespace {

/// gloo closes all connections when it has waited as long: never.
const std::chrono::milliseconds for_ever = gloo_timeout(0);

}  // namespace

class GlooPulse::Entry {
  public:
    Entry(GlooPulse& pulse, Buffers& buffers, gloo::transport::UnboundBuffer& buffer)
        : pulse_(pulse), buffers_(buffers), buffer_(&buffer) {
        const std::lock_guard lock(pulse_.mutex_);
        buffers_.push_back(buffer_);
    }
    ~Entry() {
        const std::lock_guard lock(pulse_.mutex_);
        buffers_.erase(std::ranges::find(buffers_, buffer_));
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

  private:
    GlooPulse& pulse_;
    Buffers& buffers_;
    gloo::transport::UnboundBuffer* buffer_;
};

GlooPulse::GlooPulse() {
    const SignalsBlocked masked;
    thread_ = std::thread([this] { beat(); });
}

GlooPulse::~GlooPulse() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void GlooPulse::beat() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return stopping_; })) {
        for (gloo::transport::UnboundBuffer* buffer : receiving_) buffer->abortWaitRecv();
        for (gloo::transport::UnboundBuffer* buffer : sending_) buffer->abortWaitSend();
    }
}

int GlooPulse::wait_receive(gloo::transport::UnboundBuffer& buffer) {
    const Entry entry(*this, receiving_, buffer);
    int source = -1;
    return buffer.waitRecv(&source, for_ever) ? source : -1;
}

int GlooPulse::wait_send(gloo::transport::UnboundBuffer& buffer) {
    const Entry entry(*this, sending_, buffer);
    int target = -1;
    return buffer.waitSend(&target, for_ever) ? target : -1;
}

GlooPatience::GlooPatience(const GlooCall& call) : call_(call) {}

void GlooPatience::look(const std::function<std::string()>& missing) {
    if (*call_.given_up) throw GlooGivenUp("nobody waits for it any more");
    if (const std::string reason = call_.job->reason(); !reason.empty()) throw GlooGivenUp(reason);
    const double waited = waited_.now();
    if (call_.timeout > 0 && waited > call_.timeout)
        throw GlooGivenUp("timed out: " + (call_.through_hosts ? call_.presence->silence()
                                                               : missing() + call_.presence->unlike()));
}

}  // namespace tutti
