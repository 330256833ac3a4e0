#include "sgd.hpp"

#include "../common/update_rules.hpp"
#include "update_chunks.hpp"

namespace tutti::cuda {
namespace {

template <bool with_momentum>
__global__ void __launch_bounds__(update_threads)
    update(SgdSettings settings, const StepState* RESTRICT state, const UpdateChunk* RESTRICT chunks,
           const float* RESTRICT gradient, float* RESTRICT parameter, float* RESTRICT buffer) {
    if (state->skip != 0) return;
    const UpdateChunk chunk = chunks[block_index()];
    const SgdRule<float> rule{
        static_cast<float>(state->learning_rate * chunk.lr_scale), static_cast<float>(settings.momentum),
        static_cast<float>(1 - settings.dampening), static_cast<float>(chunk.weight_decay)};
    const bool first_step = state->step == 1;
    for_chunk(chunk, [&]<int N>(std::int64_t i, Lanes<N>) {
        float g[N], p[N], next[N];
        load(gradient + i, g);
        load(parameter + i, p);
        if (with_momentum && !first_step) load(buffer + i, next);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            g[k] = rule.decayed(g[k], p[k]);
            if constexpr (with_momentum) {
                next[k] = first_step ? g[k] : rule.next_buffer(g[k], next[k]);
                g[k] = settings.nesterov ? g[k] + rule.momentum * next[k] : next[k];
            }
            p[k] -= rule.lr * g[k];
        }
        if constexpr (with_momentum) store(buffer + i, next);
        store(parameter + i, p);
    });
}

}  // namespace

void sgd(const SgdSettings& settings, const StepState* state, const UpdateChunks& chunks,
         const TensorView& gradient, const TensorView& parameter, const TensorView& momentum_buffer,
         Stream stream) {
    const bool with_momentum = settings.momentum != 0;
    assert(gradient.count() == parameter.count());
    assert(!with_momentum || momentum_buffer.count() == parameter.count());
    assert(aligned(gradient.data, parameter.data, momentum_buffer.data));
    launch("sgd", with_momentum ? update<true> : update<false>, update_geometry(chunks), stream, settings,
           state, chunks.data, gradient.as<float>(), parameter.as<float>(),
           with_momentum ? momentum_buffer.as<float>() : nullptr);
}

}  // namespace tutti::cuda
