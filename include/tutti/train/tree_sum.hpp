#pragma once
// The sum of arenas that come one after another, along a binary tree.

#include <cstdint>
#include <vector>

#include "tutti/device/device.hpp"

namespace tutti {

/// Adds up `leaves` = 2^k arenas of which each lies in the same memory, where the next one overwrites it:
/// leaves 2i and 2i + 1 first, then those sums, …. Only k sums wait for their neighbour at a time (pairwise
/// summation; N. J. Higham, "The Accuracy of Floating Point Summation", 1993). Nothing is allocated after
/// construction. One thread.
class TreeSum {
  public:
    /// values: where each leaf is written, 1-D, of `ops`' type. purpose: for the error when there is not
    /// enough memory for k more of it, on `device`.
    TreeSum(Device& device, Ops& ops, const TensorView& values, std::int64_t leaves,
            const std::string& purpose);

    /// The next leaf is complete. After the last one `values` holds the sum, and the next leaf begins
    /// another; before that, nothing defined.
    void take();

    /// Of the sums that wait.
    static std::size_t bytes(std::size_t values_bytes, std::int64_t leaves);

  private:
    Ops& ops_;
    TensorView values_;
    std::int64_t leaves_, taken_ = 0;
    std::vector<Buffer> memory_;
    std::vector<TensorView> waiting_;  // [level]: of 2^level leaves
};

}  // namespace tutti
