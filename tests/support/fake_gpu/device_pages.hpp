#pragma once
// The pages of the fake device's memory: neighbours in one range of addresses, so that one system call opens
// all of them to a kernel and one shuts them again.

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace tutti::fake_gpu {

/// No address is used twice: what was freed can be touched by nobody.
class DevicePages {
  public:
    /// Of whole pages; null when there are no more. What was not written shows: NaN in floating point, but
    /// not in all of a huge buffer, which tests never fill.
    std::byte* allocate(std::size_t bytes) {
        constexpr std::size_t addresses = std::size_t{1} << 40;
        if (!begin_) {
            void* const memory =
                ::mmap(nullptr, addresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (memory == MAP_FAILED) return nullptr;
            begin_ = next_ = static_cast<std::byte*>(memory);
            // Opening and shutting takes time for each page: 74 of the 103 s of a locator's test.
            ::madvise(memory, addresses, MADV_HUGEPAGE);
        }
        if (bytes > addresses - static_cast<std::size_t>(next_ - begin_)) return nullptr;
        std::byte* const data = next_;
        if (::mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
        next_ += bytes;
        std::memset(data, 0xff, std::min(bytes, std::size_t{1} << 20));
        if (open_ == 0) ::mprotect(data, bytes, PROT_NONE);
        live_[data] = bytes;
        join();
        return data;
    }
    /// False where nothing was allocated there.
    bool free(std::byte* data) {
        const auto found = live_.find(data);
        if (found == live_.end()) return false;
        ::mmap(data, found->second, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0);
        live_.erase(found);
        join();
        return true;
    }
    void open() {
        if (open_++ == 0) protect(PROT_READ | PROT_WRITE);
    }
    void shut() {
        if (--open_ == 0) protect(PROT_NONE);
    }
    /// By address, with their bytes.
    const std::map<std::byte*, std::size_t>& live() const { return live_; }

  private:
    void join() {
        ranges_.clear();
        for (const auto& [data, bytes] : live_)
            if (!ranges_.empty() && ranges_.back().first + ranges_.back().second == data)
                ranges_.back().second += bytes;
            else
                ranges_.emplace_back(data, bytes);
    }
    void protect(int how) {
        for (const auto& [data, bytes] : ranges_) ::mprotect(data, bytes, how);
    }

    std::byte *begin_ = nullptr, *next_ = nullptr;
    int open_ = 0;
    std::map<std::byte*, std::size_t> live_;
    std::vector<std::pair<std::byte*, std::size_t>> ranges_;
};

}  // namespace tutti::fake_gpu
