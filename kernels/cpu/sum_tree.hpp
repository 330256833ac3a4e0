#pragma once
// Sums that threads make in parts, added in an order that does not depend on who made which part.

#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstdint>

namespace tutti {

/// Adds the sums of `parts` parts as a binary tree: (0 + 1) + (2 + 3) …. Whoever finishes the second of two
/// neighbours adds them, while his own is in his cache. A thread that makes neighbouring parts so adds nearly
/// all of them itself: of another thread's it reads one sum for its whole share, where adding all parts in
/// the end would read each from the core that made it. Each sum is written and, but for the last one, read
/// by one thread at a time.
class SumTree {
  public:
    static constexpr std::int64_t most_parts = 64;

    explicit SumTree(std::int64_t parts) : parts_(parts) { assert(parts >= 1 && parts <= most_parts); }

    /// To be called once for each part, when its sum is made, from any thread. add(to, from) adds the sum of
    /// part `from` to that of part `to`.
    template <class Add>
    void finish(std::int64_t part, const Add& add) {
        for (std::int64_t step = 1; step < second_half(); step *= 2) {
            const std::int64_t left = part / (2 * step) * (2 * step), right = left + step;
            part = left;
            if (right >= parts_) continue;
            if (!one_is_there_[static_cast<std::size_t>(right)].exchange(true, std::memory_order_acq_rel))
                return;
            add(left, right);
        }
    }

    /// When all parts are finished, the result is the sum of part 0 plus, if this is not 0, that of this
    /// part: the last addition is left to the caller, who may let all threads share it.
    std::int64_t second_half() const {
        return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(parts_ - 1)));
    }

  private:
    const std::int64_t parts_;
    std::array<std::atomic<bool>, most_parts> one_is_there_{};  // of each pair, by its right part
};

}  // namespace tutti
