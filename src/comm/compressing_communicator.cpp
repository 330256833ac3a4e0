#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tutti/base/bf16.hpp"
#include "tutti/comm/compression.hpp"

namespace tutti {
namespace {

constexpr std::int64_t piece = 1024;  // elements; they stay in the first-level cache

/// The values of `floats` as bf16 in the front half of its memory.
TensorView pack(const TensorView& floats) {
    const std::int64_t count = floats.count();
    std::array<float, piece> wide;
    std::array<std::uint16_t, piece> narrow;
    // Forwards: what is written lies before what is still to be read.
    for (std::int64_t first = 0; first < count; first += piece) {
        const auto n = static_cast<std::size_t>(std::min(piece, count - first));
        std::memcpy(wide.data(), floats.data + 4 * first, 4 * n);
        round_to_bf16(std::span(wide).first(n), narrow.data());
        std::memcpy(floats.data + 2 * first, narrow.data(), 2 * n);
    }
    return {floats.data, DType::bf16, Shape{count}};
}

/// The way back.
void unpack(const TensorView& floats) {
    const std::int64_t count = floats.count();
    std::array<float, piece> wide;
    std::array<std::uint16_t, piece> narrow;
    for (std::int64_t first = (count - 1) / piece * piece; first >= 0; first -= piece) {
        const auto n = static_cast<std::size_t>(std::min(piece, count - first));
        std::memcpy(narrow.data(), floats.data + 2 * first, 2 * n);
        widen_bf16(std::span(narrow).first(n), wide.data());
        std::memcpy(floats.data + 4 * first, wide.data(), 4 * n);
    }
}

class CompressedTransfer final : public Work::Transfer {
  public:
    CompressedTransfer(Work work, const TensorView& floats) : work_(std::move(work)), floats_(floats) {}

    bool test() override {
        if (!work_.test()) return false;
        finish();
        return true;
    }
    void wait() override {
        work_.wait();
        finish();
    }

  private:
    void finish() {
        if (!std::exchange(finished_, true)) unpack(floats_);
    }

    Work work_;
    TensorView floats_;
    bool finished_ = false;
};

class CompressingCommunicator final : public Communicator {
  public:
    explicit CompressingCommunicator(std::unique_ptr<Communicator> host) : host_(std::move(host)) {}

    int rank() const override { return host_->rank(); }
    int size() const override { return host_->size(); }
    std::string backend() const override { return host_->backend(); }
    std::string all_reduce_path() const override { return host_->bf16_path(); }
    std::string bf16_path() const override { return host_->bf16_path(); }
    // As bf16 are on every path; fp64, which are not compressed, do not come with it.
    bool sums_in_fixed_order() const override { return true; }

    Work all_reduce(const TensorView& buffer, ReduceOp op) override {
        if (buffer.dtype != DType::f32 || op != ReduceOp::sum || buffer.count() == 0)
            return host_->all_reduce(buffer, op);
        return Work(std::make_unique<CompressedTransfer>(host_->all_reduce(pack(buffer), op), buffer));
    }
    Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) override {
        return host_->reduce_scatter(input, output, op);
    }
    Work all_gather(const TensorView& input, const TensorView& output) override {
        return host_->all_gather(input, output);
    }
    Work broadcast(const TensorView& buffer, int root) override { return host_->broadcast(buffer, root); }
    void barrier() override { host_->barrier(); }

    std::string why_not_recordable() const override { return "their values are rounded by the host"; }
    Work follow_recorded() override { return host_->follow_recorded(); }
    void before_abort(const std::shared_ptr<std::function<void()>>& release) override {
        host_->before_abort(release);
    }
    bool given_up() const override { return host_->given_up(); }
    void will_end_with(ExitCode code, const std::string& message) override {
        host_->will_end_with(code, message);
    }
    void watch_peers(const std::string& call, double waited) override { host_->watch_peers(call, waited); }
    Buffer allocate(std::size_t bytes) override { return host_->allocate(bytes); }

    std::unique_ptr<Communicator> duplicate() override {
        return std::make_unique<CompressingCommunicator>(host_->duplicate());
    }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        host_->abort(code);
        std::_Exit(static_cast<int>(code));
    }

  private:
    std::unique_ptr<Communicator> host_;
};

}  // namespace

std::unique_ptr<Communicator> make_compressing_communicator(std::unique_ptr<Communicator> host) {
    return std::make_unique<CompressingCommunicator>(std::move(host));
}

}  // namespace tutti
