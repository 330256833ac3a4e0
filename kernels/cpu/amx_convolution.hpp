#pragma once
// Convolutions in bf16 by the processor's matrix unit, each product of a window as it is: the unit multiplies
// so fast that what Winograd's method saves is less than what its transforms take.

#include <memory>

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether these are the way: one group, whole vectors of channels, and a processor with the unit.
bool takes_amx_convolution(const Conv2dShape& shape);

class AmxConvolution {
  public:
    /// Of a shape that is taken.
    explicit AmxConvolution(const Conv2dShape& shape);
    ~AmxConvolution();

    /// y[N, OH, OW, O] of x[N, H, W, I] and weight[O, KH, KW, I], all fp32, of which x and weight are rounded
    /// to bf16; sums are fp32. bias: [O] or null. The bits depend neither on the number of threads nor on
    /// what shares the batch.
    void forward(std::int64_t batch, const float* x, const float* weight, const float* bias, float* y,
                 Workspace& workspace) const;
    /// dx[N, H, W, I] of dy[N, OH, OW, O] and weight, rounded likewise.
    void backward_data(std::int64_t batch, const float* weight, const float* dy, float* dx,
                       Workspace& workspace) const;

  private:
    struct Ways;
    const Conv2dShape shape_;
    const std::unique_ptr<const Ways> ways_;
};

}  // namespace tutti
