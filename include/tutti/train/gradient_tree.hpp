#pragma once
// The sum of the gradients of virtual shards along a binary tree, while threads still compute them.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tutti/device/device.hpp"
#include "tutti/model/parameter.hpp"

namespace tutti {

/// Adds up `leaves` = 2^k arenas of gradients: leaves 2i and 2i + 1 first, then those sums, … (pairwise
/// summation; N. J. Higham, "The Accuracy of Floating Point Summation", 1993). It does so parameter by
/// parameter: whoever finishes the second of two neighbours adds them, while his own is in his cache, to the
/// memory of the left one. Sums of two do not depend on their order, so who comes when changes no bit. A
/// leaf's memory is free for another when all its parameters have gone into others.
class GradientTree {
  public:
    /// result: of the whole tree, laid out as `parameters` say, and the memory of leaf 0. threads: that many
    /// compute leaves at once. Throws RunError where `device` has not the memory (bytes()).
    GradientTree(Device& device, const TensorView& result, const std::vector<Parameter>& parameters,
                 std::int64_t leaves, int threads);

    /// The leaves of another sum follow; no thread is in the last one any more. What lies between parameters
    /// is never touched.
    void begin();
    /// Where the gradients of the next leaf are to be written, the leaves in ascending order. Waits until one
    /// of the arenas is free, which needs only that other threads go on with their leaves. Nothing after
    /// stop(): the leaf is not to be computed. A view without parameters may have no memory. One thread at a
    /// time.
    std::optional<TensorView> next_arena();
    /// The gradient of a parameter (its number) of a leaf is there. `add`: of the calling thread. Any thread.
    void take(std::int64_t leaf, std::size_t parameter, Ops& add);
    /// All gradients of a leaf are there, or will be before what `add` issues next: the same sums, of whole
    /// arenas, in one operation per pair, where one thread computes all leaves and operations cost more to
    /// begin than memory costs to read again. What lies between parameters is added, too. In the place of the
    /// calls of the other take() for a sum.
    void take(std::int64_t leaf, Ops& add);
    /// A thread gives up, so that the others do not wait for its leaf.
    void stop();

    /// Arenas beside `result`: for each leaf that is computed or whose sum waits for its neighbour's.
    static std::int64_t more_arenas(std::int64_t leaves, int threads);

  private:
    TensorView slice(std::int64_t leaf, std::size_t parameter) const;
    void release(std::int64_t leaf);

    const std::vector<Parameter>& parameters_;
    const std::int64_t leaves_;
    std::vector<Buffer> memory_;
    std::vector<TensorView> arenas_;  // [0]: the result
    std::vector<TensorView> of_leaf_;
    // By the leaf where a pair's right half begins, and there by parameter: one of the two halves is there.
    std::vector<std::atomic<bool>> one_is_there_;
    std::vector<std::atomic<std::size_t>> merged_;  // by that leaf: parameters that have gone to the left
    std::int64_t given_ = 0;

    std::mutex mutex_;
    std::condition_variable freed_;
    std::vector<TensorView> free_;
    bool stopped_ = false;
};

}  // namespace tutti
