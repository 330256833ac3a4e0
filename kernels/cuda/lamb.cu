#include "lamb.hpp"

#include "../common/update_rules.hpp"
#include "reduce.hpp"
#include "update_chunks.hpp"

namespace tutti::cuda {
namespace {

__device__ LambRule<float> rule_of(const LambSettings& s, const StepState& state, const UpdateChunk& chunk) {
    const double t = static_cast<double>(state.step);
    return {static_cast<float>(1 - s.beta1),
            static_cast<float>(s.beta2),
            static_cast<float>(1 - s.beta2),
            static_cast<float>(1 / (1 - pow(s.beta1, t))),
            static_cast<float>(sqrt(1 - pow(s.beta2, t))),
            static_cast<float>(s.eps),
            static_cast<float>(chunk.weight_decay)};
}

/// parts[chunk] = {Σ p², Σ update²}
__global__ void __launch_bounds__(update_threads)
    directions(LambSettings settings, const StepState* RESTRICT state, const UpdateChunk* RESTRICT chunks,
               float* RESTRICT gradient, const float* RESTRICT parameter, float* RESTRICT first_moment,
               float* RESTRICT second_moment, double* RESTRICT parts) {
    if (state->skip != 0) return;
    const UpdateChunk chunk = chunks[block_index()];
    SHARED(LambRule<float>, rules, [1]);
    if (thread_index() == 0) rules[0] = rule_of(settings, *state, chunk);
    __syncthreads();
    const LambRule<float> rule = rules[0];
    double weights = 0, updates = 0;
    for_chunk(chunk, [&]<int N>(std::int64_t i, Lanes<N>) {
        float g[N], p[N], m[N], v[N];
        load(gradient + i, g);
        load(parameter + i, p);
        load(first_moment + i, m);
        load(second_moment + i, v);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            g[k] = rule.direction(g[k], p[k], m[k], v[k]);
            weights += static_cast<double>(p[k]) * static_cast<double>(p[k]);
            updates += static_cast<double>(g[k]) * static_cast<double>(g[k]);
        }
        store(gradient + i, g);
        store(first_moment + i, m);
        store(second_moment + i, v);
    });
    weights = block_sum<update_threads>(weights);
    updates = block_sum<update_threads>(updates);
    if (thread_index() == 0) {
        parts[2 * block_index()] = weights;
        parts[2 * block_index() + 1] = updates;
    }
}

/// A block for each segment: it finds its chunks, which are neighbours, by bisection.
__global__ void __launch_bounds__(update_threads)
    add_squares(const StepState* RESTRICT state, const UpdateChunk* RESTRICT chunks, std::int64_t count,
                const double* RESTRICT parts, double* RESTRICT squares) {
    if (state->skip != 0) return;
    const auto first_from = [&](std::int64_t segment) {
        std::int64_t low = 0, high = count;
        while (low < high) {
            const std::int64_t middle = (low + high) / 2;
            if (chunks[middle].segment < segment)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    };
    const std::int64_t end = first_from(block_index() + 1);
    double weights = 0, updates = 0;
    for (std::int64_t i = first_from(block_index()) + thread_index(); i < end; i += block_threads()) {
        weights += parts[2 * i];
        updates += parts[2 * i + 1];
    }
    weights = block_sum<update_threads>(weights);
    updates = block_sum<update_threads>(updates);
    if (thread_index() == 0) {
        squares[2 * block_index()] = weights;
        squares[2 * block_index() + 1] = updates;
    }
}

__global__ void __launch_bounds__(update_threads)
    apply(const StepState* RESTRICT state, const UpdateChunk* RESTRICT chunks, const double* RESTRICT squares,
          const float* RESTRICT direction, float* RESTRICT parameter) {
    if (state->skip != 0) return;
    const UpdateChunk chunk = chunks[block_index()];
    const double* sums = squares + 2 * chunk.segment;
    const double lr = state->learning_rate * chunk.lr_scale;
    const float rate = static_cast<float>(lr * trust_ratio(sums[0], sums[1]));
    for_chunk(chunk, [&]<int N>(std::int64_t i, Lanes<N>) {
        float u[N], p[N];
        load(direction + i, u);
        load(parameter + i, p);
#pragma unroll
        for (int k = 0; k < N; ++k) p[k] -= rate * u[k];
        store(parameter + i, p);
    });
}

}  // namespace

std::int64_t lamb_workspace(std::int64_t chunks) {
    return std::max<std::int64_t>(1, 2 * chunks);
}

void lamb(const LambSettings& settings, const StepState* state, const UpdateChunks& chunks,
          const TensorView& gradient, const TensorView& parameter, const TensorView& first_moment,
          const TensorView& second_moment, const TensorView& squares, const TensorView& workspace,
          Stream stream) {
    assert(gradient.count() == parameter.count());
    assert(first_moment.count() == parameter.count() && second_moment.count() == parameter.count());
    assert(aligned(gradient.data, parameter.data, first_moment.data, second_moment.data));
    assert(workspace.count() >= lamb_workspace(chunks.count));
    double *parts = workspace.as<double>(), *sums = squares.as<double>();
    launch("lamb directions", directions, update_geometry(chunks), stream, settings, state, chunks.data,
           gradient.as<float>(), parameter.as<float>(), first_moment.as<float>(), second_moment.as<float>(),
           parts);
    const auto segments = static_cast<unsigned>(squares.count() / 2);
    launch("lamb squares", add_squares, Geometry{{segments}, {update_threads}}, stream, state, chunks.data,
           chunks.count, parts, sums);
    launch("lamb", apply, update_geometry(chunks), stream, state, chunks.data, sums, gradient.as<float>(),
           parameter.as<float>());
}

}  // namespace tutti::cuda
