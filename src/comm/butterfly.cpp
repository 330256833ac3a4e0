#include "tutti/comm/butterfly.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <list>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "combine.hpp"

namespace tutti {
namespace {

/// One piece is on the network while the one before it is added.
constexpr std::size_t pieces_under_way = 2;

/// What a peer may still write to after a failure: such memory stays until the process ends, which threads of
/// a library may see.
void keep(std::list<std::vector<std::byte>>&& memory) noexcept {
    static std::mutex& mutex = *new std::mutex;
    static auto& kept = *new std::list<std::vector<std::byte>>;
    const std::lock_guard lock(mutex);
    kept.splice(kept.end(), memory);
}

class Butterfly {
  public:
    Butterfly(Communicator& communicator, const TensorView& buffer)
        : communicator_(communicator),
          buffer_(buffer),
          piece_(static_cast<std::int64_t>(butterfly_bytes / pieces_under_way / size_of(buffer.dtype))),
          kept_(1, std::vector<std::byte>(std::min(butterfly_bytes, pieces_under_way * buffer.bytes()))),
          received_(kept_.front()) {}
    Butterfly(const Butterfly&) = delete;
    Butterfly& operator=(const Butterfly&) = delete;
    ~Butterfly() {
        if (std::uncaught_exceptions() > errors_before_) keep(std::move(kept_));
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
        view.data = received_.data() + place(piece) * (received_.size() / pieces_under_way);
        return view;
    }
    void add(std::int64_t piece) {
        under_way_[place(piece)].wait();
        const TensorView sum = mine(piece);
        combine(sum.data, sum.data, theirs(piece).data, sum.count(), sum.dtype, ReduceOp::sum);
    }

    Communicator& communicator_;
    TensorView buffer_;
    std::int64_t piece_;  ///< elements
    const int errors_before_ = std::uncaught_exceptions();
    std::list<std::vector<std::byte>> kept_;  // of one: nothing is allocated to keep it
    std::vector<std::byte>& received_;
    std::array<Work, pieces_under_way> under_way_;  // gone before the memory that they write
};

}  // namespace

void butterfly_sum(Communicator& communicator, const TensorView& buffer) {
    require_reducible("butterfly_sum", buffer);
    if (buffer.dtype == DType::bf16)
        throw UsageError(
            describe("butterfly_sum", buffer.count(), buffer.dtype) + ": each partial sum would be rounded",
            "use f32");
    const int ranks = communicator.size();
    if (!std::has_single_bit(static_cast<unsigned>(ranks)))
        throw std::logic_error("butterfly_sum on " + std::to_string(ranks) +
                               " ranks, which is no power of two");
    if (ranks == 1 || buffer.count() == 0) return;
    Butterfly butterfly(communicator, buffer);
    for (int distance = ranks / 2; distance >= 1; distance /= 2)
        butterfly.add_from(communicator.rank() ^ distance);
}

}  // namespace tutti
