#pragma once
// The input's gradient of a convolution in bf16 as a convolution forward: oneDNN 2.6's forward is the faster,
// and its order of weights is one that we write faster than its reorders do.

#include <map>

#include "bf16_tile.hpp"
#include "onednn_product.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// dx[N, H, W, I] = dy[N, OH, OW, O] convolved with weights[I, KH, KW, O], the weights [O, KH, KW, I] with
/// both axes of the window turned around, and padding of KH − 1 − ph and KW − 1 − pw. For stride 1, one group
/// and the processors that bf16_tile.hpp is for.
class OnednnTurnedConv2d {
  public:
    OnednnTurnedConv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context);

    /// Whether this computes batches of so many images, dx in this type.
    bool takes(std::int64_t batch, dnnl::memory::data_type dx);
    /// dy: bf16, in `parts` equal parts of as many images as takes() was asked for. Reserves the context's
    /// workspaces, but `shared`.
    void execute(const std::uint16_t* dy, const TensorView& weight, const TensorView& dx, std::int64_t parts);

  private:
    /// Weights [I, O, KH, KW] as oneDNN wants them: pairs of neighbours in O, in turn for `width` of I; these
    /// for `height` pairs; those for each place in the window; and all that for the next pairs of O, and then
    /// of I.
    struct Layout {
        std::int64_t width = 0, height = 0;
    };
    struct Plan {
        OnednnProduct product;
        Layout layout;
    };
    Plan& plan(std::int64_t batch, dnnl::memory::data_type dx);
    Plan make_plan(std::int64_t batch, dnnl::memory::data_type dx,
                   dnnl::memory::format_tag activations) const;
    bool find_layout(const dnnl::memory::desc& weights, Layout& layout) const;
    void turn(const float* weight, const Layout& layout, Bf16Pair* to) const;

    const Conv2dShape shape_;
    const std::shared_ptr<OnednnContext> context_;
    std::map<std::pair<std::int64_t, dnnl::memory::data_type>, Plan> plans_;  // by batch size
};

}  // namespace tutti
