#include "shared_lane.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "mpi_communicator.hpp"
#include "shared_all_reduce.hpp"

namespace tutti {
namespace {

/// With many ranks on a host the staging memory grows and a poll reads many counters.
constexpr int most_shared_ranks = 128;

/// Pages that several processes map. Anonymous (memfd_create), so that neither /dev/shm's size limits it nor
/// anything remains when a process is killed; the peers open it through /proc.
class SharedMemory {
  public:
    explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {}
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory() {
        if (address_ != MAP_FAILED) munmap(address_, bytes_);
        close_file();
    }

    /// False when the system refuses.
    bool create(const char* name) {
        file_ = memfd_create(name, MFD_CLOEXEC);
        return file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes_)) == 0 && map();
    }
    bool open(const std::string& path) {
        file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        struct stat status {};
        return file_ >= 0 && fstat(file_, &status) == 0 && status.st_size == static_cast<off_t>(bytes_) &&
               map();
    }
    /// Keeps the mapping.
    void close_file() {
        if (file_ >= 0) close(file_);
        file_ = -1;
    }
    int file() const { return file_; }
    std::byte* data() const { return static_cast<std::byte*>(address_); }

  private:
    bool map() {
        address_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        return address_ != MAP_FAILED;
    }

    std::size_t bytes_;
    int file_ = -1;
    void* address_ = MAP_FAILED;
};

class SharedLane final : public AllReduceLane {
  public:
    SharedLane(std::unique_ptr<SharedMemory> memory, const Handle& handle)
        : memory_(std::move(memory)),
          all_reduce_(memory_->data(), handle.rank, handle.size),
          job_(handle.job),
          lanes_(handle.lanes) {
        lanes_->add(this);
    }
    ~SharedLane() override { lanes_->remove(this); }

    std::uint64_t issue(const TensorView& buffer, ReduceOp op) override {
        return all_reduce_.issue(buffer, op);
    }
    std::uint64_t issue_reduce_scatter(const TensorView& input, const TensorView& output,
                                       ReduceOp op) override {
        return all_reduce_.issue_reduce_scatter(input, output, op);
    }
    std::optional<std::uint64_t> issue_all_gather(const TensorView& input,
                                                  const TensorView& output) override {
        return all_reduce_.issue_all_gather(input, output);
    }
    std::optional<std::uint64_t> issue_reduce_then_gather(const TensorView& input, const TensorView& output,
                                                          const Communicator::UseSums& use) override {
        return all_reduce_.issue_reduce_then_gather(input, output, use);
    }
    bool reduces_then_gathers_by_piece() const override {
        return all_reduce_.reduces_then_gathers_by_piece();
    }
    void progress() override {
        try {
            all_reduce_.progress();
        } catch (...) {
            // The peers will not get what they wait for, nor will this rank.
            if (job_->broken.empty()) job_->broken = "a collective through shared memory failed before";
            throw;
        }
    }
    bool finished(std::uint64_t request) const override { return all_reduce_.finished(request); }
    void stop() override { all_reduce_.stop(); }
    const char* name() const override { return all_reduce_.name(); }

  private:
    std::unique_ptr<SharedMemory> memory_;
    SharedAllReduce all_reduce_;
    std::shared_ptr<Job> job_;
    std::shared_ptr<Lanes> lanes_;
};

/// Where rank 0's memory is to be found. The name tells it from any other file of that number.
struct Offer {
    std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
    std::array<char, 64> name{};
    std::int64_t process = 0;
    std::int64_t file = -1;
};

bool create(SharedMemory& memory, Offer& offer) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    std::snprintf(offer.name.data(), offer.name.size(), "tutti-%d-%lld", static_cast<int>(getpid()),
                  static_cast<long long>(now));
    offer.process = getpid();
    const std::string host = mpi_host();
    std::memcpy(offer.host.data(), host.data(), std::min(host.size(), offer.host.size() - 1));
    if (!memory.create(offer.name.data())) return false;
    offer.file = memory.file();
    return true;
}

bool open(SharedMemory& memory, const Offer& offer) {
    // A network of containers on one machine may share /proc and yet be meant as hosts of their own: MPI's
    // name of the host decides.
    if (offer.file < 0 || mpi_host() != offer.host.data()) return false;
    const std::string path = "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.file);
    std::array<char, 128> target{};
    if (readlink(path.c_str(), target.data(), target.size() - 1) < 0) return false;
    return std::string(target.data()).starts_with("/memfd:" + std::string(offer.name.data()) + " ") &&
           memory.open(path);
}

}  // namespace

std::shared_ptr<AllReduceLane> make_shared_lane(const std::shared_ptr<const Handle>& handle) {
    if (handle->size == 1 || handle->size > most_shared_ranks) return nullptr;
    auto memory = std::make_unique<SharedMemory>(SharedAllReduce::region_bytes(handle->size));
    Offer offer;
    int mapped = 0;
    if (handle->rank == 0) mapped = create(*memory, offer) ? 1 : 0;

    MpiTransfer announce(handle, "sharing memory", sizeof offer, DType::u8);
    handle->check(MPI_Ibcast(&offer, sizeof offer, MPI_BYTE, 0, handle->comm, announce.add()), "MPI_Ibcast");
    announce.wait();
    if (handle->rank != 0) mapped = open(*memory, offer) ? 1 : 0;

    MpiTransfer agree(handle, "sharing memory", 1, DType::i64);
    int all = 0;
    handle->check(MPI_Iallreduce(&mapped, &all, 1, MPI_INT, MPI_MIN, handle->comm, agree.add()),
                  "MPI_Iallreduce");
    agree.wait();
    memory->close_file();
    if (all == 0) return nullptr;
    return std::make_shared<SharedLane>(std::move(memory), *handle);
}

}  // namespace tutti
