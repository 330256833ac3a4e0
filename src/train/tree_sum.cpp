#include "tutti/train/tree_sum.hpp"

#include <bit>
#include <cassert>

namespace tutti {
namespace {

std::size_t levels_of(std::int64_t leaves) {
    assert(std::has_single_bit(static_cast<std::uint64_t>(leaves)));
    return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(leaves)));
}

}  // namespace

TreeSum::TreeSum(Device& device, Ops& ops, const TensorView& values, std::int64_t leaves,
                 const std::string& purpose)
    : ops_(ops), values_(values), leaves_(leaves) {
    if (values.count() == 0) return;
    for (std::size_t level = 0; level < levels_of(leaves); ++level) {
        memory_.push_back(device.allocate(values.bytes(), purpose));
        waiting_.push_back(memory_.back().view(0, values.dtype, values.shape));
    }
}

void TreeSum::take() {
    if (values_.count() == 0) return;
    std::size_t level = 0;
    for (std::int64_t before = taken_; before % 2 == 1; before /= 2) ops_.add(waiting_[level++], values_);
    if (++taken_ == leaves_)
        taken_ = 0;
    else
        ops_.swap(values_, waiting_[level]);
}

std::size_t TreeSum::bytes(std::size_t values_bytes, std::int64_t leaves) {
    return levels_of(leaves) * values_bytes;
}

}  // namespace tutti
