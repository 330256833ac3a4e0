#pragma once
// The ops contract for fp32 on oneDNN: linear and conv2d are oneDNN's, the rest is EigenOps<float>'s.

#include <memory>
#include <string>

#include "tutti/device/ops.hpp"

namespace tutti {

/// Who computes windows in fp32 by Winograd's method where oneDNN and fp32_winograd.hpp both can.
enum class Winograd { faster, library };

/// Null when Tutti was built without oneDNN.
std::unique_ptr<Ops> make_onednn_ops(Winograd winograd = Winograd::faster);

/// The same with the inputs of linear, conv2d and, where bf16_attention.hpp takes it, attention rounded to
/// bf16 for their products; sums and results are fp32, and so is all the rest, the gradients of convolutions
/// that pool in one among it. Throws UsageError when Tutti was built without oneDNN, or oneDNN
/// has no such products for this CPU.
std::unique_ptr<Ops> make_onednn_bf16_ops();

/// What computes products in fp32, for people: "oneDNN 2.6.3", or "Eigen 3.4.0 (built without oneDNN)".
std::string fp32_library();

}  // namespace tutti
