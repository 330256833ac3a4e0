#include <bit>

#include "adam.hpp"
#include "arena_ops.hpp"
#include "kernel_runs.hpp"
#include "lamb.hpp"
#include "normalize.hpp"
#include "sgd.hpp"

namespace tutti::cuda {
namespace {

/// Pixels of `rows` places with `width` channels.
KernelRun pixels(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = arena.tensor(DType::u8, {c.rows, c.width}),
                     y = arena.tensor(c.dtype, {c.rows, c.width});
    const TensorView mean = arena.tensor(DType::f32, {c.width}), std = arena.tensor(DType::f32, {c.width});
    return [=](Stream stream) { normalize(x, mean, std, y, stream); };
}

/// From the case's type to fp32.
template <void (*kernel)(const TensorView&, const TensorView&, Stream)>
KernelRun to_arena(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = arena.tensor(c.dtype, {c.width}), y = arena.tensor(DType::f32, {c.width});
    return [=](Stream stream) { kernel(x, y, stream); };
}
KernelRun scaling(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = arena.tensor(c.dtype, {c.width}), factor = arena.tensor(std::vector<double>{1.0});
    return [=](Stream stream) { scale(factor, x, stream); };
}
KernelRun averaging(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = arena.tensor(c.dtype, {c.width}), y = arena.tensor(c.dtype, {c.width});
    return [=](Stream stream) { lerp(0.001, x, y, stream); };
}

/// Arenas of `width` parameters in segments of a quarter of a million.
struct Update {
    TensorView gradient, parameter, first, second, table, state_words;
    std::int64_t segments = 0, chunk_count = 0;

    Update(DeviceArena& arena, const KernelCase& c)
        : gradient(arena.tensor(DType::f32, {c.width})),
          parameter(arena.tensor(DType::f32, {c.width})),
          first(arena.tensor(DType::f32, {c.width})),
          second(arena.tensor(DType::f32, {c.width})) {
        constexpr std::int64_t length = 250'000;
        std::vector<UpdateSegment> parts;
        for (std::int64_t begin = 0; begin < c.width; begin += length)
            parts.push_back({begin, std::min(length, c.width - begin), 0.01, 1});
        segments = static_cast<std::int64_t>(parts.size());
        std::vector<std::int64_t> words;
        for (const UpdateChunk& chunk : cut_into_chunks(parts)) {
            const auto bits = std::bit_cast<std::array<std::int64_t, sizeof(UpdateChunk) / 8>>(chunk);
            words.insert(words.end(), bits.begin(), bits.end());
            ++chunk_count;
        }
        table = arena.tensor(words);
        const auto bits =
            std::bit_cast<std::array<std::int64_t, sizeof(StepState) / 8>>(StepState{1e-3, 1, 0});
        state_words = arena.tensor(std::vector<std::int64_t>(bits.begin(), bits.end()));
    }
    UpdateChunks chunks() const { return {reinterpret_cast<const UpdateChunk*>(table.data), chunk_count}; }
    const StepState* state() const { return reinterpret_cast<const StepState*>(state_words.data); }
};

KernelRun sgd_update(DeviceArena& arena, const KernelCase& c) {
    return [u = Update(arena, c)](Stream stream) {
        sgd({.momentum = 0.9}, u.state(), u.chunks(), u.gradient, u.parameter, u.first, stream);
    };
}
KernelRun adam_update(DeviceArena& arena, const KernelCase& c) {
    return [u = Update(arena, c)](Stream stream) {
        adam({}, u.state(), u.chunks(), u.gradient, u.parameter, u.first, u.second, stream);
    };
}
KernelRun lamb_update(DeviceArena& arena, const KernelCase& c) {
    const Update u(arena, c);
    const TensorView squares = arena.tensor(DType::f64, {u.segments, 2});
    const TensorView workspace = arena.tensor(DType::f64, {lamb_workspace(u.chunk_count)});
    return [=](Stream stream) {
        lamb({}, u.state(), u.chunks(), u.gradient, u.parameter, u.first, u.second, squares, workspace,
             stream);
    };
}

constexpr NamedRun runs[] = {
    {"normalize", pixels}, {"cast", to_arena<cast>}, {"accumulate", to_arena<accumulate>},
    {"scale", scaling},    {"lerp", averaging},      {"sgd", sgd_update},
    {"adam", adam_update}, {"lamb", lamb_update},
};

}  // namespace

std::span<const NamedRun> arena_runs() {
    return runs;
}

}  // namespace tutti::cuda
