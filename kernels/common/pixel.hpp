#pragma once
// From a stored pixel or feature to a model's input.

#include "host_device.hpp"

namespace tutti {

/// In fp32 with two divisions, as torchvision's ToTensor and Normalize; value is 0 to 255.
HOST_DEVICE inline float normalized_pixel(float value, float mean, float std) {
    return (value / 255.0f - mean) / std;
}
HOST_DEVICE inline float normalized_feature(float value, float mean, float std) {
    return (value - mean) / std;
}

}  // namespace tutti
