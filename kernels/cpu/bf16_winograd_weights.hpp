#pragma once
// Transformed weights as products in bf16 take them: slab of columns after slab,
//
//   [slab of columns][product][pairs of the summed channels][columns of the slab]

#include <omp.h>

#include "bf16_winograd_tile.hpp"
#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

class WinogradWeights {
  public:
    static constexpr std::int64_t slab = bf16_lanes * most_bf16_vectors;

    WinogradWeights(std::int64_t summed, std::int64_t columns) : pairs_(summed / 2), columns_(columns) {}

    /// In pairs.
    std::int64_t size() const { return winograd_products * pairs_ * columns_; }
    /// Where those of column `column` of pair 0 lie.
    struct Place {
        std::int64_t at, product_step, pair_step;
    };
    Place place(std::int64_t column) const {
        const std::int64_t first = column / slab * slab, columns = slab_columns(first);
        return {winograd_products * pairs_ * first + column - first, pairs_ * columns, columns};
    }
    std::int64_t slab_columns(std::int64_t first) const {
        return slab < columns_ - first ? slab : columns_ - first;
    }

  private:
    const std::int64_t pairs_, columns_;
};

/// Of weight[O, 3, 3, I]: for products that sum inputs, and for those that sum outputs.
void transform_weights_for_outputs(WindowTransform transform, const Conv2dShape& shape, const float* weight,
                                   Bf16Pair* to);
void transform_weights_for_inputs(WindowTransform transform, const Conv2dShape& shape, const float* weight,
                                  Bf16Pair* to);

/// What convolutions of 3×3 by these weights have in common, whatever they move by: one group, whole vectors
/// of channels and many of them, and a processor with the instructions.
bool suits_winograd_weights(const Conv2dShape& shape);

/// transform(weights) writes the weights' pairs, then compute(weights, scratch): with memory of the
/// workspace, of which scratch has `scratch_size` elements of 4 bytes for each thread.
template <class Transform, class Compute>
void with_winograd_weights(const WinogradWeights& layout, std::int64_t scratch_size, Workspace& workspace,
                           const Transform& transform, const Compute& compute) {
    const std::int64_t size = layout.size() + omp_get_max_threads() * scratch_size;
    auto* const weights = workspace.reserve_elements<Bf16Pair>(static_cast<std::size_t>(size));
    transform(weights);
    compute(weights, reinterpret_cast<float*>(weights + layout.size()));
}

}  // namespace tutti
