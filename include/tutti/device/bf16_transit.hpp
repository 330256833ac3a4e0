#pragma once
// What sums of f32 that travel as bf16 need of a GPU, on the stream of the transfers.

#include <cstddef>

#include "tutti/device/buffer.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// Device memory, of the current GPU; streams are cudaStream_t. The calls but memory() are issued to the
/// stream and return at once; they may be recorded (WorkRecorder). Throws RunError where CUDA refuses.
class Bf16Transit {
  public:
    virtual ~Bf16Transit() = default;
    /// Contents arbitrary. Freeing it waits for the GPU.
    virtual Buffer memory(std::size_t bytes) = 0;
    /// Between f32 and bf16 of as many elements: to the nearest, ties to even.
    virtual void cast(const TensorView& from, const TensorView& to, void* stream) = 0;
    /// blocks: bf16 [R, N]; sum: bf16 [N], the rows added in fp32 in their order, rounded once. sum may be
    /// one of the rows.
    virtual void add_rows(const TensorView& blocks, const TensorView& sum, void* stream) = 0;
};

}  // namespace tutti
