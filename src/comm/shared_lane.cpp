#include "shared_lane.hpp"

#include "mpi_communicator.hpp"
#include "shared_all_reduce.hpp"
#include "shared_memory.hpp"

namespace tutti {
namespace {

class SharedLane final : public AllReduceLane {
  public:
    SharedLane(std::unique_ptr<SharedMemory> memory, const Handle& handle)
        : memory_(std::move(memory)),
          all_reduce_(memory_->data(), handle.rank, handle.size),
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
    bool finished(std::uint64_t request) const override { return all_reduce_.finished(request); }
    const char* name() const override { return all_reduce_.name(); }

  protected:
    void work_off() override { all_reduce_.progress(); }
    void halt() override { all_reduce_.stop(ended_by()); }

  private:
    std::unique_ptr<SharedMemory> memory_;
    SharedAllReduce all_reduce_;
    std::shared_ptr<Lanes> lanes_;
};

}  // namespace

std::shared_ptr<AllReduceLane> make_shared_lane(const std::shared_ptr<const Handle>& handle) {
    if (handle->size == 1 || handle->size > most_shared_ranks) return nullptr;
    auto memory = std::make_unique<SharedMemory>(SharedAllReduce::region_bytes(handle->size));
    SharedMemory::Offer offer;
    int mapped = 0;
    if (handle->rank == 0) mapped = memory->create(mpi_host(), offer) ? 1 : 0;

    MpiTransfer announce(handle, "sharing memory", sizeof offer, DType::u8);
    handle->check(MPI_Ibcast(&offer, sizeof offer, MPI_BYTE, 0, handle->comm, announce.add()), "MPI_Ibcast");
    announce.wait();
    if (handle->rank != 0) mapped = memory->open(mpi_host(), offer) ? 1 : 0;

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
