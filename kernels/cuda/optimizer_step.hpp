#pragma once
// What the optimizers' kernels have in common: the arenas' segments, cut into chunks, and what changes from
// step to step, in device memory, so that a captured step reads it anew.

#include <cstdint>
#include <span>
#include <vector>

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// In device memory.
struct StepState {
    double learning_rate = 0;
    std::int64_t step = 1;  ///< updates, this one included
    std::int64_t skip = 0;  ///< not 0: the update is left out
};

/// step += 1, where skip is 0; one thread.
void begin_step(StepState* state, Stream stream);

/// Elements [offset, offset + count) of the arenas, updated alike; for LAMB one parameter.
struct UpdateSegment {
    std::int64_t offset = 0, count = 0;
    double weight_decay = 0;
    double lr_scale = 1;
};

/// The work of one block: a part of a segment.
struct UpdateChunk {
    std::int64_t begin = 0, count = 0;
    double weight_decay = 0, lr_scale = 1;
    std::int64_t segment = 0;
};

/// At most this many elements: enough to pay for the block's scalars, and few enough to fill a GPU evenly.
inline constexpr std::int64_t chunk_elements = 8192;

/// In the order of the segments; empty segments have no chunk. Pure; to be copied to the device once.
std::vector<UpdateChunk> cut_into_chunks(std::span<const UpdateSegment> segments);

/// Chunks in device memory.
struct UpdateChunks {
    const UpdateChunk* data = nullptr;
    std::int64_t count = 0;
};

}  // namespace tutti::cuda
