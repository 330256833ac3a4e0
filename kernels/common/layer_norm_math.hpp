#pragma once
// Layer normalisation of one element; x̂ = (x − mean)·scale with scale = 1/√(variance + eps) of its row.

#include "host_device.hpp"

namespace tutti {

template <class T>
struct LayerNormRow {
    T mean, scale;
    HOST_DEVICE T normalized(T x) const { return (x - mean) * scale; }
    HOST_DEVICE T forward(T x, T gamma, T beta) const { return fused(normalized(x), gamma, beta); }
    /// dx from g = dy·gamma, its row's mean(g), and slope = mean(g·x̂).
    HOST_DEVICE T backward(T x, T g, T g_mean, T slope) const {
        return scale * fused(-normalized(x), slope, g - g_mean);
    }
};

}  // namespace tutti
