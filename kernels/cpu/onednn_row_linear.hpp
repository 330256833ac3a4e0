#pragma once
// A linear layer of many rows, dealt among the threads by rows.

#include <cstdint>
#include <map>
#include <memory>

#include "onednn_product.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// With many rows the activations are most of what is read and written. The rows are cut into blocks: of
/// each, one thread makes the output, or adds up the weights' gradient and makes the input's gradient. A
/// thread that the machine holds up leaves blocks to the others, where the library's own threads wait for
/// each other in every product; and none reads another's activations, as the library's do for a gradient of
/// the weights: where cores have no cache in common, what another core has read costs 120 µs a MB to write
/// again, else 8 (Zen 5). The gradient of the weights is summed from the blocks' in their order. Where the
/// blocks lie depends on the rows and on the number of threads, who computes them does not matter. fp32; one
/// call at a time.
class OnednnRowLinear {
  public:
    OnednnRowLinear(const LinearShape& shape, std::shared_ptr<OnednnContext> context)
        : shape_(shape), context_(std::move(context)) {}

    /// Whether the threads of now have enough to do with `batch` rows, and the gradients of blocks are few
    /// against these: for backward.
    bool takes(std::int64_t batch) const;
    /// The same for forward: there the library's own threads are faster with AVX-512.
    bool takes_forward(std::int64_t batch) const;

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y);
    /// dx may be undefined.
    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final);

  private:
    /// How a batch is cut: nearly equal blocks of whole units of rows.
    struct Blocks {
        std::int64_t batch, count;
        std::int64_t begin(std::int64_t block) const;
        std::int64_t rows(std::int64_t block) const { return begin(block + 1) - begin(block); }
    };
    /// The products of one block, made for callers with a thread each.
    struct Products {
        OnednnProduct forward, backward_weight, backward_data;
    };

    static Blocks blocks_of(std::int64_t batch, int callers);
    OnednnProduct plan_forward(std::int64_t rows, int callers) const;
    OnednnProduct plan_backward_weight(std::int64_t rows, int callers) const;
    OnednnProduct plan_backward_data(std::int64_t rows, int callers) const;
    /// Plans what is not planned yet, and makes the callers' workspaces.
    void ready(const Blocks& blocks, int callers);
    /// Floats of a block's dweight and dbias, in whole cache lines.
    std::int64_t sum_count() const { return (shape_.out * shape_.in + shape_.out + 15) / 16 * 16; }

    const LinearShape shape_;
    const std::shared_ptr<OnednnContext> context_;
    /// By rows of a block and callers.
    std::map<std::pair<std::int64_t, int>, Products> products_;
    Workspace sums_;
};

}  // namespace tutti
