#pragma once
// torch.lerp, from the nearer end, so that weight 0 keeps y and weight 1 gives x.

#include "host_device.hpp"

namespace tutti {

template <class T>
HOST_DEVICE T lerp_near_start(T near, T x, T y) {
    return y + near * (x - y);
}
template <class T>
HOST_DEVICE T lerp_near_end(T near, T x, T y) {
    return x - near * (x - y);
}

}  // namespace tutti
