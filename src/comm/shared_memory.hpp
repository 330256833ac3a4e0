#pragma once
// Private to comm: pages that several processes of a host map.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti {

/// With many ranks on a host the staging memory grows and a poll reads many counters.
constexpr int most_shared_ranks = 128;

/// Anonymous (memfd_create), so that neither /dev/shm's size limits it nor anything remains when a process is
/// killed; the peers open it through /proc.
class SharedMemory {
  public:
    /// Where a process's memory is to be found; plain bytes. The name tells it from any other file of that
    /// number.
    struct Offer {
        std::array<char, 256> host{};
        std::array<char, 64> name{};
        std::int64_t process = 0;
        std::int64_t file = -1;
    };

    explicit SharedMemory(std::size_t bytes);
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory();

    /// False when the system refuses. host: by which the peers know this host.
    bool create(const std::string& host, Offer& offer);
    /// A network of containers on one machine may share /proc and yet be meant as hosts of their own: the
    /// host's name decides.
    bool open(const std::string& host, const Offer& offer);
    /// When all have opened it; keeps the mapping.
    void close_file();
    std::byte* data() const { return static_cast<std::byte*>(address_); }

  private:
    bool map();

    std::size_t bytes_;
    int file_ = -1;
    void* address_;
};

}  // namespace tutti
