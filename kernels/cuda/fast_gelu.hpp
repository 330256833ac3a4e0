#pragma once
// GELU and its derivative by the type that results are stored in: f32 has the CPU's bits
// (common/activations.hpp); bf16, which keeps 8 bits of them, has formulas of its own, in as few instructions
// as memory has time for, with the hardware's 2^x and 1/x.
//
// Over all bf16 inputs (tests/kernels/cuda/activations_test.cpp): relative to the result, also far out in the
// tails, the exact form is within 3.2e-5 of fp64, that by tanh within 1e-5; of a derivative, which has a
// zero, relative to the larger of itself and Φ(x). bf16 rounds by up to 2^-8 = 3.9e-3. Results below 1e-35
// may be 0: there e^(-x²/2) is not a normal number. NaN stays NaN.

#include "../common/activations.hpp"
#include "ptx.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti::cuda {

/// Φ(-|x|) = ratio·gauss, gauss = e^(-x²/2), with ratio = t·P(t) of t = 1/(1 + 0.376·|x|), as in
/// vector_math.hpp with a shorter polynomial: fitted for even relative errors (2.9e-5) on 0 ≤ |x| ≤ 14.
struct FastTail {
    float distance;  ///< |x|, at most 14: from there on gauss is 0, and infinity times it would be NaN
    float gauss, ratio;
    __device__ explicit FastTail(float x) {
        constexpr float of_exponent = -std::numbers::log2e_v<float> / 2;
        distance = smaller_or_nan(std::abs(x), 14.0f);
        // The square of a bf16 number is exact, so that the exponent, up to 127, is rounded once.
        gauss = fast_exp2(distance * distance * of_exponent);
        const float t = fast_reciprocal(fmaf(distance, 0.376f, 1.0f));
        float sum = -0.09085689485f;
        sum = fmaf(sum, t, 0.19874352217f);
        sum = fmaf(sum, t, 0.08471211791f);
        sum = fmaf(sum, t, 0.15791380405f);
        sum = fmaf(sum, t, 0.14947758615f);
        ratio = sum * t;
    }
};

/// x·Φ(x) = max(x, 0) - |x|·Φ(-|x|)
__device__ inline float fast_gelu(float x) {
    const FastTail tail(x);
    return fmaf(-tail.distance, tail.gauss * tail.ratio, fmaxf(x, 0.0f));
}
/// The derivative is Φ(-|x|) - |x|·φ(x) for x < 0, and what that lacks to 1 for x > 0.
__device__ inline float fast_gelu_gradient(float x, float dy) {
    constexpr float density_at_0 = std::numbers::inv_sqrtpi_v<float> * std::numbers::sqrt2_v<float> / 2;
    const FastTail tail(x);
    const float slope = tail.gauss * fmaf(-density_at_0, tail.distance, tail.ratio);
    return dy * (x > 0 ? 1 - slope : slope);
}

/// As GeluByTanh.
struct FastGeluByTanh {
    static constexpr float linear = 2 * std::numbers::inv_sqrtpi_v<float> * std::numbers::sqrt2_v<float>;
    static constexpr float cubic = 0.044715f * linear;
    /// (1 + tanh(u))/2 = 1/(1 + 2^exponent)
    __device__ static float share(float x, float square) {
        constexpr float log2e = std::numbers::log2e_v<float>;
        const float exponent = x * fmaf(-cubic * log2e, square, -linear * log2e);
        return fast_reciprocal(1 + fast_exp2(exponent));
    }
};
__device__ inline float fast_gelu_by_tanh(float x) {
    return x * FastGeluByTanh::share(x, x * x);
}
__device__ inline float fast_gelu_by_tanh_gradient(float x, float dy) {
    using At = FastGeluByTanh;
    const float square = x * x, share = At::share(x, square);
    // Of 2u, times x. Far out the share is 0 or 1, and this is to stay finite, for a product with 0.
    const float steep = fminf(fmaxf(x * fmaf(3 * At::cubic, square, At::linear), -1e4f), 1e4f);
    return dy * (share * fmaf(1 - share, steep, 1.0f));
}

/// y, or dx of dy, of results stored as T.
template <class T>
struct Gelu {
    __device__ float operator()(float x) const { return gelu(x); }
    __device__ float operator()(float x, float dy) const { return gelu_gradient(x, dy); }
};
template <>
struct Gelu<Bf16> {
    __device__ float operator()(float x) const { return fast_gelu(x); }
    __device__ float operator()(float x, float dy) const { return fast_gelu_gradient(x, dy); }
};
template <class T>
struct GeluByTanhOf {
    __device__ float operator()(float x) const { return gelu_by_tanh(x); }
    __device__ float operator()(float x, float dy) const { return gelu_by_tanh_gradient(x, dy); }
};
template <>
struct GeluByTanhOf<Bf16> {
    __device__ float operator()(float x) const { return fast_gelu_by_tanh(x); }
    __device__ float operator()(float x, float dy) const { return fast_gelu_by_tanh_gradient(x, dy); }
};

}  // namespace tutti::cuda
