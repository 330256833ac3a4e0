#pragma once
// Transformed weights as products in bf16 take them: slab of columns after slab,
//
//   [slab of columns][product][pairs of the summed channels][columns of the slab]

#include "bf16_winograd_tile.hpp"
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

}  // namespace tutti
