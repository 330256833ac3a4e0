#pragma once
// The order of what a layer has for each value of a flattened image.

#include "tutti/base/shape.hpp"

namespace tutti {

/// Of a ParameterSpec or BufferSpec with an element for each value of `image` {H, W, C}: files hold them in
/// PyTorch's order (C, H, W). Rank 0: behind no image, in one order.
template <class Spec>
void keep_pytorchs_order(Spec& spec, const Shape& image) {
    if (image.rank() != 3) return;
    spec.view = {image[2], image[0], image[1]};
    spec.permutation = {1, 2, 0};
}

}  // namespace tutti
