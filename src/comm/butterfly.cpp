#include "tutti/comm/butterfly.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <vector>

#include "checks.hpp"
#include "combine.hpp"

namespace tutti {
namespace {

/// One piece is on the network while the one before it is added.
constexpr std::size_t pieces_under_way = 2;

class Butterfly {
  public:
    Butterfly(Communicator& communicator, const TensorView& buffer)
        : communicator_(communicator),
          buffer_(buffer),
          piece_(static_cast<std::int64_t>(butterfly_bytes / pieces_under_way / size_of(buffer.dtype))),
          received_(std::min(butterfly_bytes, pieces_under_way * buffer.bytes())) {}

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
    std::vector<std::byte> received_;
    std::array<Work, pieces_under_way> under_way_;  // gone before the memory that they write
};

}  // namespace

void butterfly_sum(Communicator& communicator, const TensorView& buffer) {
    require_reducible("butterfly_sum", buffer);
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
