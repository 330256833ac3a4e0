#include "staged_communicator.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>
#include <vector>

#include "checks.hpp"

namespace tutti {
namespace {

/// Pinned memory that transfers take and give back: pinning is slow, and a step has the same sizes as the
/// last.
class StagingPool {
  public:
    explicit StagingPool(std::shared_ptr<HostStaging> staging) : staging_(std::move(staging)) {}

    HostStaging& staging() { return *staging_; }
    Buffer take(std::size_t bytes) {
        const auto found =
            std::ranges::find_if(free_, [&](const Buffer& buffer) { return buffer.size() >= bytes; });
        if (found == free_.end()) return staging_->host_memory(std::bit_ceil(bytes));
        Buffer buffer = std::move(*found);
        free_.erase(found);
        return buffer;
    }
    void give_back(Buffer buffer) {
        const auto place =
            std::ranges::find_if(free_, [&](const Buffer& other) { return other.size() >= buffer.size(); });
        free_.insert(place, std::move(buffer));  // ascending: the smallest that is enough is found first
    }

  private:
    std::shared_ptr<HostStaging> staging_;
    std::vector<Buffer> free_;
};

class StagedTransfer final : public Work::Transfer {
  public:
    StagedTransfer(std::shared_ptr<StagingPool> pool, std::size_t bytes)
        : pool_(std::move(pool)), buffer_(pool_->take(bytes)) {}
    ~StagedTransfer() override {
        // An abandoned transfer may still write into its memory: a Work waits when it goes.
        { const Work abandoned = std::move(work_); }
        if (buffer_.size() > 0) pool_->give_back(std::move(buffer_));
    }

    std::byte* memory() const { return buffer_.data(); }
    void begin(Work work) { work_ = std::move(work); }
    /// What goes back to the device at the end.
    void then_copy(const TensorView& device, const std::byte* from) {
        to_ = device;
        from_ = from;
    }

    bool test() override {
        if (!work_.test()) return false;
        copy_back();
        return true;
    }
    void wait() override {
        work_.wait();
        copy_back();
    }

  private:
    void copy_back() {
        if (from_ != nullptr) pool_->staging().to_device(to_, from_);
        from_ = nullptr;
    }

    std::shared_ptr<StagingPool> pool_;
    Buffer buffer_;
    Work work_;
    TensorView to_;
    const std::byte* from_ = nullptr;
};

class StagedCommunicator final : public Communicator {
  public:
    StagedCommunicator(std::unique_ptr<Communicator> host, std::shared_ptr<HostStaging> staging)
        : host_(std::move(host)),
          staging_(std::move(staging)),
          pool_(std::make_shared<StagingPool>(staging_)) {}

    int rank() const override { return host_->rank(); }
    int size() const override { return host_->size(); }
    std::string backend() const override { return host_->backend(); }
    std::string all_reduce_path() const override {
        return host_->all_reduce_path() + ", through pinned host memory";
    }
    bool sums_in_fixed_order() const override { return host_->sums_in_fixed_order(); }

    Work all_reduce(const TensorView& buffer, ReduceOp op) override {
        require_reducible("all_reduce", buffer);
        if (buffer.count() == 0) return host_->all_reduce(buffer, op);
        auto transfer = std::make_unique<StagedTransfer>(pool_, buffer.bytes());
        staging_->to_host(transfer->memory(), buffer);
        transfer->then_copy(buffer, transfer->memory());
        const TensorView staged{transfer->memory(), buffer.dtype, buffer.shape};
        transfer->begin(host_->all_reduce(staged, op));
        return Work(std::move(transfer));
    }

    Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) override {
        require_reducible("reduce_scatter", input);
        require_blocks("reduce_scatter", input, output, size());
        if (input.count() == 0) return host_->reduce_scatter(input, output, op);
        auto transfer = std::make_unique<StagedTransfer>(pool_, input.bytes());
        staging_->to_host(transfer->memory(), input);
        const TensorView own = own_block(transfer->memory(), output);
        transfer->then_copy(output, own.data);
        transfer->begin(host_->reduce_scatter({transfer->memory(), input.dtype, input.shape}, own, op));
        return Work(std::move(transfer));
    }

    Work all_gather(const TensorView& input, const TensorView& output) override {
        require_blocks("all_gather", output, input, size());
        if (input.count() == 0) return host_->all_gather(input, output);
        auto transfer = std::make_unique<StagedTransfer>(pool_, output.bytes());
        const TensorView own = own_block(transfer->memory(), input);
        staging_->to_host(own.data, input);
        transfer->then_copy(output, transfer->memory());
        transfer->begin(host_->all_gather(own, {transfer->memory(), output.dtype, output.shape}));
        return Work(std::move(transfer));
    }

    Work broadcast(const TensorView& buffer, int root) override {
        require_root("broadcast", root, size());
        if (buffer.count() == 0) return host_->broadcast(buffer, root);
        auto transfer = std::make_unique<StagedTransfer>(pool_, buffer.bytes());
        if (rank() == root)
            staging_->to_host(transfer->memory(), buffer);
        else
            transfer->then_copy(buffer, transfer->memory());
        transfer->begin(host_->broadcast({transfer->memory(), buffer.dtype, buffer.shape}, root));
        return Work(std::move(transfer));
    }

    Work exchange(const TensorView& send, const TensorView& receive, int peer) override {
        require_pair(send, receive, peer, rank(), size());
        if (send.count() == 0) return host_->exchange(send, receive, peer);
        auto transfer = std::make_unique<StagedTransfer>(pool_, 2 * send.bytes());
        std::byte* const received = transfer->memory() + send.bytes();
        staging_->to_host(transfer->memory(), send);
        transfer->then_copy(receive, received);
        transfer->begin(host_->exchange({transfer->memory(), send.dtype, send.shape},
                                        {received, receive.dtype, receive.shape}, peer));
        return Work(std::move(transfer));
    }

    void barrier() override { host_->barrier(); }

    std::unique_ptr<Communicator> duplicate() override {
        return std::make_unique<StagedCommunicator>(host_->duplicate(), staging_);
    }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        host_->abort(code);
        std::_Exit(static_cast<int>(code));
    }

  private:
    TensorView own_block(std::byte* whole, const TensorView& block) const {
        return {whole + block.bytes() * static_cast<std::size_t>(rank()), block.dtype, block.shape};
    }

    std::unique_ptr<Communicator> host_;
    std::shared_ptr<HostStaging> staging_;
    std::shared_ptr<StagingPool> pool_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       std::shared_ptr<HostStaging> staging) {
    return std::make_unique<StagedCommunicator>(std::move(host), std::move(staging));
}

}  // namespace tutti
