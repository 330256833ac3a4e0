#include <bit>

#include "adam.hpp"
#include "arena_ops.hpp"
#include "kernel_runs.hpp"
#include "lamb.hpp"
#include "normalize.hpp"
#include "segment_updates.hpp"
#include "sgd.hpp"
#include "sum_of_squares.hpp"

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
    std::vector<UpdateSegment> segments;
    std::int64_t chunk_count = 0;

    Update(DeviceArena& arena, const KernelCase& c)
        : gradient(arena.tensor(DType::f32, {c.width})),
          parameter(arena.tensor(DType::f32, {c.width})),
          first(arena.tensor(DType::f32, {c.width})),
          second(arena.tensor(DType::f32, {c.width})) {
        constexpr std::int64_t length = 250'000;
        for (std::int64_t begin = 0; begin < c.width; begin += length)
            segments.push_back({begin, std::min(length, c.width - begin), 0.01, 1});
        std::vector<std::int64_t> words;
        for (const UpdateChunk& chunk : cut_into_chunks(segments)) {
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
    /// update(gradient, parameter, first, second) of each segment, a launch or more for each.
    template <class Body>
    void for_segments(const Body& update) const {
        for (const UpdateSegment& segment : segments) {
            const auto part = [&](const TensorView& arena) {
                return TensorView{
                    arena.data + segment.offset * std::int64_t{sizeof(float)}, DType::f32, {segment.count}};
            };
            update(part(gradient), part(parameter), part(first), part(second));
        }
    }
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
    const TensorView squares = arena.tensor(DType::f64, {std::ssize(u.segments), 2});
    const TensorView workspace = arena.tensor(DType::f64, {lamb_workspace(u.chunk_count)});
    return [=](Stream stream) {
        lamb({}, u.state(), u.chunks(), u.gradient, u.parameter, u.first, u.second, squares, workspace,
             stream);
    };
}

// As training has them: the settings come from the host with each segment.
KernelRun sgd_of_segments(DeviceArena& arena, const KernelCase& c) {
    return [u = Update(arena, c)](Stream stream) {
        u.for_segments([&](auto g, auto p, auto buffer, auto) {
            sgd(SgdStep{.lr = 1e-3, .momentum = 0.9, .weight_decay = 0.01}, g, p, buffer, stream);
        });
    };
}
KernelRun adam_of_segments(DeviceArena& arena, const KernelCase& c) {
    return [u = Update(arena, c)](Stream stream) {
        u.for_segments([&](auto g, auto p, auto m, auto v) {
            adam(AdamStep{.lr = 1e-3, .weight_decay = 0.01, .step = 1}, g, p, m, v, stream);
        });
    };
}
KernelRun lamb_of_segments(DeviceArena& arena, const KernelCase& c) {
    const Update u(arena, c);
    const TensorView squares = arena.tensor(DType::f64, {2});
    const TensorView workspace =
        arena.tensor(DType::f64, {sum_of_squares_workspace(u.segments.front().count)});
    const auto one = [squares](std::size_t i) {
        return TensorView{squares.data + i * sizeof(double), DType::f64, {1}};
    };
    return [=](Stream stream) {
        u.for_segments([&](auto g, auto p, auto m, auto v) {
            lamb_direction(LambStep{.weight_decay = 0.01, .step = 1}, g, p, m, v, g, stream);
            sum_of_squares(p, workspace, one(0), stream);
            sum_of_squares(g, workspace, one(1), stream);
            lamb_apply(1e-3, squares, g, p, stream);
        });
    };
}

constexpr NamedRun runs[] = {
    {"normalize", pixels},
    {"cast", to_arena<cast>},
    {"accumulate", to_arena<accumulate>},
    {"scale", scaling},
    {"lerp", averaging},
    {"sgd", sgd_update},
    {"adam", adam_update},
    {"lamb", lamb_update},
    {"sgd_of_segments", sgd_of_segments},
    {"adam_of_segments", adam_of_segments},
    {"lamb_of_segments", lamb_of_segments},
};

}  // namespace

std::span<const NamedRun> arena_runs() {
    return runs;
}

}  // namespace tutti::cuda
