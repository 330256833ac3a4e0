#pragma once
// Arenas with segments that begin and end anywhere, for the optimizers' kernels.

#include "optimizer_step.hpp"
#include "storage_cases.hpp"

namespace tutti::test {

/// Not multiples of a vector, warp, block or chunk; of one element and of none; with gaps between them.
struct OptimizerCase {
    std::vector<cuda::UpdateSegment> segments = {{0, 1, 0.1, 1},  {1, 0, 0, 1},
                                                 {3, 70, 0, 0.5}, {73, 2050, 0.2, 1},
                                                 {2130, 6, 0, 1}, {2137, cuda::chunk_elements + 5, 0.01, 2}};
    std::vector<cuda::UpdateChunk> chunks = cuda::cut_into_chunks(segments);
    std::int64_t size = 2137 + cuda::chunk_elements + 5;
    cuda::StepState state{.learning_rate = 0.3};

    cuda::UpdateChunks view() const { return {chunks.data(), static_cast<std::int64_t>(chunks.size())}; }
    TestTensor random(unsigned seed) const { return TestTensor::random(DType::f32, {size}, seed); }
    TestTensor zeros() const {
        return {DType::f32, {size}, std::vector<double>(static_cast<std::size_t>(size))};
    }
    static TensorView slice(const TensorView& arena, const cuda::UpdateSegment& segment) {
        return {arena.data + static_cast<std::size_t>(segment.offset) * size_of(arena.dtype),
                arena.dtype,
                {segment.count}};
    }
};

}  // namespace tutti::test
