#pragma once
// Gradients as bf16 while they are on their way, by kernels of this folder.

#include <memory>

#include "tutti/device/bf16_transit.hpp"

namespace tutti::cuda {

std::unique_ptr<Bf16Transit> make_bf16_transit();

}  // namespace tutti::cuda
