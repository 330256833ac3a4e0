#include "first_touch.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <system_error>

#include "bus_error_guard.hpp"

namespace tutti {
namespace {

struct Touch {
    std::span<const std::byte> memory;
    std::size_t page;

    void operator()() const {
        for (std::size_t i = 0; i < memory.size(); i += page)
            static_cast<void>(*static_cast<const volatile std::byte*>(memory.data() + i));
    }
};

}  // namespace

FirstTouch::~FirstTouch() {
    drop();
    if (thread_.joinable()) thread_.join();
}

void FirstTouch::add(std::span<const std::byte> memory) {
    const std::scoped_lock lock(mutex_);
    if (closed_ || failed_) return;
    waiting_.push_back(memory);
    if (thread_.joinable()) {
        changed_.notify_one();
        return;
    }
    try {
        thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
        failed_ = true;  // whoever copies touches the pages, as without this
        waiting_.clear();
    }
}

void FirstTouch::close() {
    {
        const std::scoped_lock lock(mutex_);
        closed_ = true;
    }
    changed_.notify_one();
}

void FirstTouch::drop() {
    {
        const std::scoped_lock lock(mutex_);
        waiting_.clear();
        closed_ = true;
    }
    changed_.notify_one();
}

void FirstTouch::work() {
    // Linux has a niceness for each thread: what computes does not wait for this one.
    constexpr int after_all_others = 19;
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), after_all_others);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        Touch touch{waiting_.front(), page};
        waiting_.pop_front();
        lock.unlock();
        without_bus_error(touch);
        lock.lock();
    }
}

}  // namespace tutti
