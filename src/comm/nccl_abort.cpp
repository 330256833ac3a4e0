#include "nccl_abort.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tutti {
namespace {

/// How many have not ended; shared with threads that may outlive the call.
struct Pending {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t count;
};

}  // namespace

bool abort_within(const std::shared_ptr<NcclApi>& api, const std::vector<NcclComm>& communicators,
                  double patience) {
    const auto pending = std::make_shared<Pending>();
    pending->count = communicators.size();
    for (const NcclComm one : communicators)
        std::thread([api, pending, one] {
            api->abort(one);
            const std::lock_guard lock(pending->mutex);
            --pending->count;
            pending->changed.notify_all();
        }).detach();
    std::unique_lock lock(pending->mutex);
    return pending->changed.wait_for(lock, std::chrono::duration<double>(patience),
                                     [&] { return pending->count == 0; });
}

}  // namespace tutti
