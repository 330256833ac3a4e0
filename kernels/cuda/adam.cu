#include "adam.hpp"

#include "../common/update_rules.hpp"
#include "update_chunks.hpp"

namespace tutti::cuda {
namespace {

__device__ AdamRule<float> rule_of(const AdamSettings& s, const StepState& state, const UpdateChunk& chunk) {
    const double lr = state.learning_rate * chunk.lr_scale, t = static_cast<double>(state.step);
    return {static_cast<float>(s.decoupled ? 1 - lr * chunk.weight_decay : 1.0),
            static_cast<float>(s.decoupled ? 0.0 : chunk.weight_decay),
            static_cast<float>(1 - s.beta1),
            static_cast<float>(s.beta2),
            static_cast<float>(1 - s.beta2),
            static_cast<float>(lr / (1 - pow(s.beta1, t))),
            static_cast<float>(sqrt(1 - pow(s.beta2, t))),
            static_cast<float>(s.eps)};
}

__global__ void __launch_bounds__(update_threads)
    update(AdamSettings settings, const StepState* RESTRICT state, const UpdateChunk* RESTRICT chunks,
           const float* RESTRICT gradient, float* RESTRICT parameter, float* RESTRICT first_moment,
           float* RESTRICT second_moment) {
    if (state->skip != 0) return;
    const UpdateChunk chunk = chunks[block_index()];
    // Powers in double are dear: one thread computes them.
    SHARED(AdamRule<float>, rules, [1]);
    if (thread_index() == 0) rules[0] = rule_of(settings, *state, chunk);
    __syncthreads();
    const AdamRule<float> rule = rules[0];
    for_chunk(chunk, [&]<int N>(std::int64_t i, Lanes<N>) {
        float g[N], p[N], m[N], v[N];
        load(gradient + i, g);
        load(parameter + i, p);
        load(first_moment + i, m);
        load(second_moment + i, v);
#pragma unroll
        for (int k = 0; k < N; ++k) rule.update(g[k], p[k], m[k], v[k]);
        store(parameter + i, p);
        store(first_moment + i, m);
        store(second_moment + i, v);
    });
}

}  // namespace

void adam(const AdamSettings& settings, const StepState* state, const UpdateChunks& chunks,
          const TensorView& gradient, const TensorView& parameter, const TensorView& first_moment,
          const TensorView& second_moment, Stream stream) {
    assert(gradient.count() == parameter.count());
    assert(first_moment.count() == parameter.count() && second_moment.count() == parameter.count());
    assert(aligned(gradient.data, parameter.data, first_moment.data, second_moment.data));
    launch("adam", update, update_geometry(chunks), stream, settings, state, chunks.data,
           gradient.as<float>(), parameter.as<float>(), first_moment.as<float>(), second_moment.as<float>());
}

}  // namespace tutti::cuda
