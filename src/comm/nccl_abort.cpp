#include "nccl_abort.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tutti {
namespace {

/// Seconds in which an abort without trouble ends. A launcher that has lost another rank gives this process
/// about one more.
constexpr double moment = 0.25;

/// How many have not ended; shared with threads that may outlive the call.
struct Pending {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t count;
};

}  // namespace

bool abort_within(const std::shared_ptr<NcclApi>& api, const std::vector<NcclComm>& communicators,
                  double patience, const std::function<void()>& slow) {
    const auto pending = std::make_shared<Pending>();
    pending->count = communicators.size();
    for (const NcclComm one : communicators)
        std::thread([api, pending, one] {
            api->abort(one);
            const std::lock_guard lock(pending->mutex);
            --pending->count;
            pending->changed.notify_all();
        }).detach();
    const auto ended_within = [&](double seconds) {
        std::unique_lock lock(pending->mutex);
        return pending->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                         [&] { return pending->count == 0; });
    };
    const double first = std::min(moment, patience);
    if (ended_within(first)) return true;
    slow();
    return ended_within(patience - first);
}

}  // namespace tutti
