#include "optimizer_step.hpp"

#include <algorithm>

#include "launch.hpp"

namespace tutti::cuda {
namespace {

__global__ void count_step(StepState* state) {
    if (state->skip == 0) state->step += 1;
}

}  // namespace

void begin_step(StepState* state, Stream stream) {
    launch("begin_step", count_step, Geometry{{1}, {1}}, stream, state);
}

std::vector<UpdateChunk> cut_into_chunks(std::span<const UpdateSegment> segments) {
    std::vector<UpdateChunk> chunks;
    for (std::size_t s = 0; s < segments.size(); ++s) {
        const UpdateSegment& segment = segments[s];
        for (std::int64_t done = 0; done < segment.count; done += chunk_elements)
            chunks.push_back({segment.offset + done, std::min(chunk_elements, segment.count - done),
                              segment.weight_decay, segment.lr_scale, static_cast<std::int64_t>(s)});
    }
    return chunks;
}

}  // namespace tutti::cuda
