#pragma once
// The first access to memory that the disk has filled, ahead of those who will copy it.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <thread>

namespace tutti {

/// A thread that reads a byte of each page it is given. On a virtual machine whose free memory goes back to
/// the host, the first access to a page has the host find memory for it, which takes several times as long as
/// copying it; this thread does that while others wait for the disk, when a core has nothing else to do.
/// Where pages are there it costs a look at each, 5 to 20 ms for a GB.
class FirstTouch {
  public:
    FirstTouch() = default;
    /// What was not reached yet is left out.
    ~FirstTouch();
    FirstTouch(const FirstTouch&) = delete;
    FirstTouch& operator=(const FirstTouch&) = delete;

    /// Returns at once. `memory` may be part of a file that was cut; it must stay mapped as long as this
    /// lives. Nothing happens where the system has no thread left. Any thread.
    void add(std::span<const std::byte> memory);
    /// There is no more to come: the thread ends when it has done the rest. Any thread.
    void close();
    /// The same, and what was not reached yet is left out: a page that was taken back would come again from
    /// the disk. Any thread.
    void drop();

  private:
    void work();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::span<const std::byte>> waiting_;
    bool closed_ = false, failed_ = false;
    std::thread thread_;
};

}  // namespace tutti
