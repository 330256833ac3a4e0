#include "tutti/comm/butterfly.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "combine.hpp"

namespace tutti {
namespace {

/// One piece is on the network while the one before it is added.
constexpr std::size_t pieces_under_way = 2;
/// Elements: 256 bytes or more.
constexpr std::int64_t together_at = 64;

/// What a peer may still write to after a failure: such memory stays until the process ends, which threads of
/// a library may see.
void keep(std::list<std::vector<std::byte>>&& memory) noexcept {
    static std::mutex& mutex = *new std::mutex;
    static auto& kept = *new std::list<std::vector<std::byte>>;
    const std::lock_guard lock(mutex);
    kept.splice(kept.end(), memory);
}

class HostMemory {
  public:
    explicit HostMemory(std::size_t bytes) : memory_(1, std::vector<std::byte>(bytes)) {}
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;
    ~HostMemory() {
        if (std::uncaught_exceptions() > errors_before_) keep(std::move(memory_));
    }
    std::span<std::byte> bytes() { return memory_.front(); }

  private:
    const int errors_before_ = std::uncaught_exceptions();
    std::list<std::vector<std::byte>> memory_;  // of one: nothing is allocated to keep it
};

void add_on_host(const TensorView& theirs, const TensorView& sum) {
    combine(sum.data, sum.data, theirs.data, sum.count(), sum.dtype, ReduceOp::sum);
}

class Butterfly {
  public:
    using Add = std::function<void(const TensorView& theirs, const TensorView& sum)>;

    Butterfly(Communicator& communicator, const TensorView& buffer, std::span<std::byte> received, Add add)
        : communicator_(communicator),
          buffer_(buffer),
          piece_(static_cast<std::int64_t>(received.size() / pieces_under_way / size_of(buffer.dtype))),
          received_(received),
          add_(std::move(add)) {
        // Pieces begin where kernels like them to.
        if (piece_ > together_at && piece_ < buffer.count()) piece_ -= piece_ % together_at;
    }

    void add_from(int peer) {
        const std::int64_t pieces = (buffer_.count() + piece_ - 1) / piece_;
        for (std::int64_t i = 0; i < pieces; ++i) {
            under_way_[place(i)] = communicator_.exchange(mine(i), theirs(i), peer);
            if (i > 0) add(i - 1);
        }
        add(pieces - 1);
    }

  private:
    static std::size_t place(std::int64_t piece) {
        return static_cast<std::size_t>(piece) % pieces_under_way;
    }
    TensorView mine(std::int64_t piece) const {
        const std::int64_t first = piece * piece_;
        return {buffer_.data + static_cast<std::size_t>(first) * size_of(buffer_.dtype),
                buffer_.dtype,
                {std::min(piece_, buffer_.count() - first)}};
    }
    TensorView theirs(std::int64_t piece) {
        TensorView view = mine(piece);
        view.data = received_.data() + place(piece) * static_cast<std::size_t>(piece_) * size_of(view.dtype);
        return view;
    }
    void add(std::int64_t piece) {
        under_way_[place(piece)].wait();
        add_(theirs(piece), mine(piece));
    }

    Communicator& communicator_;
    TensorView buffer_;
    std::int64_t piece_;  ///< elements
    std::span<std::byte> received_;
    Add add_;
    std::array<Work, pieces_under_way> under_way_;
};

/// Whether there is anything to add. Throws where that cannot be done.
bool is_sum(const Communicator& communicator, const TensorView& buffer) {
    require_reducible("butterfly_sum", buffer);
    if (buffer.dtype == DType::bf16)
        throw UsageError(
            describe("butterfly_sum", buffer.count(), buffer.dtype) + ": each partial sum would be rounded",
            "use f32");
    const int ranks = communicator.size();
    if (!std::has_single_bit(static_cast<unsigned>(ranks)))
        throw std::logic_error("butterfly_sum on " + std::to_string(ranks) +
                               " ranks, which is no power of two");
    return ranks > 1 && buffer.count() > 0;
}

void add_all(Butterfly&& butterfly, const Communicator& communicator) {
    for (int distance = communicator.size() / 2; distance >= 1; distance /= 2)
        butterfly.add_from(communicator.rank() ^ distance);
}

}  // namespace

void butterfly_sum(Communicator& communicator, const TensorView& buffer) {
    if (!is_sum(communicator, buffer)) return;
    // Gone after the transfers that write to it.
    HostMemory received(std::min(butterfly_bytes, pieces_under_way * buffer.bytes()));
    add_all(Butterfly(communicator, buffer, received.bytes(), add_on_host), communicator);
}

void butterfly_sum(Communicator& communicator, const TensorView& buffer, const Buffer& received, Ops& add) {
    if (!is_sum(communicator, buffer)) return;
    assert(received.size() >= pieces_under_way * size_of(buffer.dtype));
    add_all(Butterfly(communicator, buffer, {received.data(), received.size()},
                      [&add](const TensorView& theirs, const TensorView& sum) { add.add(theirs, sum); }),
            communicator);
}

}  // namespace tutti
