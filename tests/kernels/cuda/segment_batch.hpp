#pragma once
// Samples for the loss of segments.

#include "../test_tensor.hpp"

namespace tutti::test {

/// outputs[N, T, 4] and wanted[N, 2·T] in f32. Of sample n the first n·3 (modulo T + 1) seconds exist; every
/// third one has none inside. Some offsets are equal to those that are wanted, and some of both are 0, where
/// the loss has its corners.
struct SegmentBatch {
    TestTensor outputs, wanted, gradients, sums{DType::f64, {3}}, doutputs;

    SegmentBatch(std::int64_t samples, std::int64_t seconds)
        : outputs(TestTensor::random(DType::f32, {samples, seconds, 4}, 1)),
          wanted(TestTensor::random(DType::f32, {samples, 2 * seconds}, 2)),
          gradients(DType::f32, {samples, seconds, 4}),
          doutputs(DType::f32, {samples, seconds, 4}) {
        auto* const said = outputs.view().as<float>();
        auto* const want = wanted.view().as<float>();
        for (std::int64_t i = 0; i < samples * seconds; ++i) {
            const std::int64_t n = i / seconds, t = i % seconds;
            float* const out = said + 4 * i;
            const bool inside = want[2 * i] > -0.5f && n % 3 != 1;
            out[0] *= 5;
            for (int k = 0; k < 2; ++k) {
                out[1 + k] = 8 * (out[1 + k] + 1);
                float& offset = want[2 * i + k];
                offset = inside ? 8 * (offset + 1) : -1;
                if (inside && (t + k) % 5 == 0) out[1 + k] = offset;
                if (inside && t % 7 == 3) out[1 + k] = offset = 0;
            }
            out[3] = t < n * 3 % (seconds + 1) ? 1 : 0;
        }
    }
};

}  // namespace tutti::test
