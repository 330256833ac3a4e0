#include <algorithm>

#include "activations.hpp"
#include "average_pool2d.hpp"
#include "bias.hpp"
#include "columns.hpp"
#include "dropout.hpp"
#include "kernel_runs.hpp"
#include "masking.hpp"
#include "max_pool2d.hpp"
#include "patches.hpp"
#include "short_attention.hpp"
#include "space_to_depth.hpp"
#include "tokens.hpp"

namespace tutti::cuda {
namespace {

TensorView like_x(DeviceArena& arena, const KernelCase& c) {
    return arena.tensor(c.dtype, {c.rows, c.width});
}

KernelRun gelu(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const GeluForm form = c.variant == "tanh" ? GeluForm::tanh : GeluForm::exact;
    const TensorView x = like_x(arena, c), y = like_x(arena, c);
    if (is_forward) return [=](Stream stream) { gelu_forward(form, x, y, stream); };
    const TensorView dy = like_x(arena, c);
    return [=](Stream stream) { gelu_backward(form, x, dy, y, stream); };
}

KernelRun sum_and_relu(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const TensorView a = like_x(arena, c), b = like_x(arena, c), y = like_x(arena, c);
    if (is_forward) return [=](Stream stream) { sum_relu(a, b, y, stream); };
    const TensorView dy = like_x(arena, c);
    return [=](Stream stream) { sum_relu_backward(y, dy, a, b, stream); };
}

KernelRun bias_and_gelu_forward(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = like_x(arena, c), y = like_x(arena, c), bias = arena.tensor(DType::f32, {c.width});
    return [=](Stream stream) { bias_forward(BiasActivation::gelu, x, bias, y, stream); };
}
KernelRun bias_and_gelu_backward(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = like_x(arena, c), dy = like_x(arena, c), dx = like_x(arena, c);
    const TensorView bias = arena.tensor(DType::f32, {c.width}), dbias = arena.tensor(DType::f32, {c.width});
    const TensorView workspace = arena.tensor(DType::f64, {bias_workspace(dy, c.width)});
    return [=](Stream stream) {
        bias_backward(BiasActivation::gelu, x, bias, dy, dx, dbias, workspace, stream);
    };
}

/// ResNet's: images of 112 × 112.
KernelRun max_pool(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const Pool2dShape shape{112, 112, c.width, 3, 3, 2, 2, 1, 1};
    const std::int64_t images = c.rows / (112 * 112);
    const TensorView x = arena.tensor(c.dtype, {images, 112, 112, c.width});
    const TensorView y = arena.tensor(c.dtype, {images, 56, 56, c.width});
    const TensorView winner = arena.tensor(DType::u8, {images, 56, 56, c.width}, 4);
    if (is_forward) return [=](Stream stream) { max_pool2d_forward(shape, x, y, winner, stream); };
    return [=](Stream stream) { max_pool2d_backward(shape, y, winner, x, stream); };
}

/// Over whole images of 7 × 7.
KernelRun average_pool(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const AveragePool2dShape shape{7, 7, c.width, {{0, 7, 7}}, {{0, 7, 7}}};
    const TensorView table = arena.tensor(average_pool2d_table(shape));
    const TensorView x = arena.tensor(c.dtype, {c.rows / 49, 7, 7, c.width});
    const TensorView y = arena.tensor(c.dtype, {c.rows / 49, 1, 1, c.width});
    if (is_forward) return [=](Stream stream) { average_pool2d_forward(shape, table, x, y, stream); };
    return [=](Stream stream) { average_pool2d_backward(shape, table, y, x, stream); };
}

/// Samples of 196 tokens.
constexpr std::int64_t sample_tokens = 196;

TensorView samples(DeviceArena& arena, const KernelCase& c) {
    return arena.tensor(c.dtype, {c.rows / sample_tokens, sample_tokens, c.width});
}

/// ViT's: samples of 197 tokens, heads of 64.
KernelRun attention(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const AttentionShape shape{sample_tokens + 1, c.width / 64, 64};
    const std::int64_t count = c.rows / shape.tokens;
    const Shape packed{count, shape.tokens, 3, shape.heads, shape.width};
    const Shape plain{count, shape.tokens, shape.heads, shape.width};
    const TensorView qkv = arena.tensor(c.dtype, packed), out = arena.tensor(c.dtype, plain),
                     statistics = arena.tensor(DType::f32, {count, shape.heads, shape.tokens});
    if (is_forward)
        return [=](Stream stream) { short_attention_forward(shape, qkv, {}, out, statistics, stream); };
    const TensorView dout = arena.tensor(c.dtype, plain), dqkv = arena.tensor(c.dtype, packed);
    return
        [=](Stream stream) { short_attention_backward(shape, qkv, {}, out, statistics, dout, dqkv, stream); };
}

DropoutPlace first_samples(DeviceArena& arena, std::int64_t count) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
    for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n] = static_cast<std::int64_t>(n);
    return {.seed = 1,
            .layer = 2,
            .epoch = arena.tensor(std::vector<std::int64_t>{3}),
            .positions = arena.tensor(numbers)};
}

KernelRun drop(DeviceArena& arena, const KernelCase& c, bool whole_samples) {
    const TensorView x = samples(arena, c), y = samples(arena, c);
    const TensorView keep = arena.tensor(DType::u8, {c.rows, c.width});
    const DropoutPlace place = first_samples(arena, c.rows / sample_tokens);
    if (whole_samples) return [=](Stream stream) { drop_path(place, 0.1, x, y, stream); };
    return [=](Stream stream) { dropout_forward(place, 0.1, x, y, keep, stream); };
}

KernelRun mean_of_tokens(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = samples(arena, c), y = arena.tensor(c.dtype, {c.rows / sample_tokens, c.width});
    return [=](Stream stream) { pool_tokens_forward(TokenPooling::mean, x, y, stream); };
}

/// VideoMAE's clips, as in kernel_cases.cpp.
struct Masking {
    static constexpr TubeMask mask{196, 8, 176};
    std::int64_t samples, width;
    DropoutPlace place;
    TensorView order;
    Masking(DeviceArena& arena, std::int64_t samples_, std::int64_t width_)
        : samples(samples_),
          width(width_),
          place(first_samples(arena, samples_)),
          order(arena.tensor(ascending(samples_)).reshaped({samples_, mask.tokens()})) {}
    TensorView tokens(DeviceArena& arena, DType dtype, std::int64_t count) const {
        return arena.tensor(dtype, {samples, count, width});
    }
    static std::vector<std::int64_t> ascending(std::int64_t samples) {
        std::vector<std::int64_t> order;
        for (std::int64_t i = 0; i < samples * mask.tokens(); ++i) order.push_back(i % mask.tokens());
        return order;
    }
};

KernelRun mask(DeviceArena& arena, const KernelCase& c) {
    const Masking m(arena, c.rows, c.width);
    return [=](Stream stream) { mask_tokens(m.place, Masking::mask, m.order, stream); };
}
/// VideoMAE V2's: half of all tokens are kept.
KernelRun decode(DeviceArena& arena, const KernelCase& c) {
    const Masking m(arena, c.rows, c.width);
    const TensorView decoded = arena.tensor(DType::i64, {c.rows, c.width});
    constexpr RunningCells cells{.columns = 14, .dropped = 2};
    static_assert(Masking::mask.visible_tokens() + cells.kept_tokens(Masking::mask) == 160 + 784);
    return [=](Stream stream) { running_cells(m.place, Masking::mask, cells, m.order, decoded, stream); };
}
KernelRun take(DeviceArena& arena, const KernelCase& c) {
    const Masking m(arena, c.rows / Masking::mask.visible_tokens(), c.width);
    const TensorView x = m.tokens(arena, DType::f32, Masking::mask.tokens()),
                     y = m.tokens(arena, c.dtype, Masking::mask.visible_tokens());
    return [=](Stream stream) { take_tokens(x, m.order, y, stream); };
}
KernelRun fill_up(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const Masking m(arena, c.rows / Masking::mask.tokens(), c.width);
    constexpr std::int64_t visible = Masking::mask.visible_tokens();
    const TensorView x = m.tokens(arena, c.dtype, visible),
                     y = m.tokens(arena, c.dtype, Masking::mask.tokens());
    if (!is_forward) {
        const TensorView dtoken = arena.tensor(DType::f32, {c.width});
        const TensorView workspace = arena.tensor(DType::f64, {fill_tokens_workspace(y, visible)});
        return [=](Stream stream) { fill_tokens_backward(y, workspace, x, dtoken, visible, stream); };
    }
    const TensorView token = arena.tensor(c.dtype, {c.width}),
                     positions = arena.tensor(c.dtype, {Masking::mask.tokens(), c.width});
    return [=](Stream stream) { fill_tokens_forward(x, token, positions, m.order, y, stream); };
}
KernelRun last(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    constexpr std::int64_t all = Masking::mask.tokens(), hidden = Masking::mask.hidden_tokens();
    const Masking m(arena, c.rows / (is_forward ? hidden : all), c.width);
    const TensorView x = m.tokens(arena, c.dtype, all), y = m.tokens(arena, c.dtype, hidden);
    if (is_forward) return [=](Stream stream) { last_tokens_forward(x, y, stream); };
    return [=](Stream stream) { last_tokens_backward(y, x, stream); };
}
KernelRun differences(DeviceArena& arena, const KernelCase& c) {
    const Masking m(arena, c.rows / Masking::mask.hidden_tokens(), c.width);
    const TensorView prediction = m.tokens(arena, c.dtype, Masking::mask.hidden_tokens()),
                     patches = m.tokens(arena, c.dtype, Masking::mask.tokens()),
                     out = m.tokens(arena, c.dtype, Masking::mask.hidden_tokens()),
                     epsilon = arena.tensor(c.dtype, {3});
    return [=](Stream stream) { patch_differences(prediction, patches, m.order, epsilon, out, stream); };
}

/// The first half of the columns becomes the second of others.
KernelRun columns(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = arena.tensor(c.dtype, {c.rows, 2 * c.width}),
                     y = arena.tensor(c.dtype, {c.rows, 2 * c.width});
    const ColumnRange second_half{.to = c.width, .count = c.width};
    return [=](Stream stream) { copy_columns(x, second_half, y, stream); };
}

/// Images of 224 rows, in patches of 16 × 16.
KernelRun patches(DeviceArena& arena, const KernelCase& c) {
    const PatchShape shape{224, 224, c.width / 224, 16, 16};
    const TensorView x = arena.tensor(c.dtype, {c.rows / 224, 224, 224, c.width / 224});
    const TensorView tokens = arena.tensor(c.dtype, {c.rows / 224, shape.tokens(), shape.token_width()});
    return [=](Stream stream) { extract_patches(shape, x, tokens, stream); };
}

/// For ResNet's first convolution.
KernelRun cells_of_images(DeviceArena& arena, const KernelCase& c) {
    const Conv2dShape shape{224, 224, c.width, 64, 7, 7, 2, 2, 3, 3};
    const Conv2dShape to = folded(shape).value();
    const std::int64_t images = c.rows / (224 * 224);
    const TensorView x = like_x(arena, c),
                     cells = arena.tensor(c.dtype, {images, to.height, to.width, to.in});
    return [=](Stream stream) { space_to_depth(shape, x, cells, stream); };
}

constexpr NamedRun runs[] = {
    {"relu_forward",
     [](DeviceArena& arena, const KernelCase& c) -> KernelRun {
         const TensorView x = like_x(arena, c), y = like_x(arena, c);
         return [=](Stream stream) { relu_forward(x, y, stream); };
     }},
    {"gelu_forward", [](DeviceArena& a, const KernelCase& c) { return gelu(a, c, true); }},
    {"gelu_backward", [](DeviceArena& a, const KernelCase& c) { return gelu(a, c, false); }},
    {"short_attention_forward", [](DeviceArena& a, const KernelCase& c) { return attention(a, c, true); }},
    {"short_attention_backward", [](DeviceArena& a, const KernelCase& c) { return attention(a, c, false); }},
    {"sum_relu", [](DeviceArena& a, const KernelCase& c) { return sum_and_relu(a, c, true); }},
    {"sum_relu_backward", [](DeviceArena& a, const KernelCase& c) { return sum_and_relu(a, c, false); }},
    {"bias_forward", bias_and_gelu_forward},
    {"bias_backward", bias_and_gelu_backward},
    {"max_pool2d_forward", [](DeviceArena& a, const KernelCase& c) { return max_pool(a, c, true); }},
    {"max_pool2d_backward", [](DeviceArena& a, const KernelCase& c) { return max_pool(a, c, false); }},
    {"average_pool2d_forward", [](DeviceArena& a, const KernelCase& c) { return average_pool(a, c, true); }},
    {"average_pool2d_backward",
     [](DeviceArena& a, const KernelCase& c) { return average_pool(a, c, false); }},
    {"dropout_forward", [](DeviceArena& a, const KernelCase& c) { return drop(a, c, false); }},
    {"drop_path", [](DeviceArena& a, const KernelCase& c) { return drop(a, c, true); }},
    {"pool_tokens_forward", mean_of_tokens},
    {"mask_tokens", mask},
    {"running_cells", decode},
    {"take_tokens", take},
    {"fill_tokens_forward", [](DeviceArena& a, const KernelCase& c) { return fill_up(a, c, true); }},
    {"fill_tokens_backward", [](DeviceArena& a, const KernelCase& c) { return fill_up(a, c, false); }},
    {"last_tokens_forward", [](DeviceArena& a, const KernelCase& c) { return last(a, c, true); }},
    {"last_tokens_backward", [](DeviceArena& a, const KernelCase& c) { return last(a, c, false); }},
    {"patch_differences", differences},
    {"copy_columns", columns},
    {"extract_patches", patches},
    {"space_to_depth", cells_of_images},
};

}  // namespace

std::span<const NamedRun> layer_runs() {
    return runs;
}

}  // namespace tutti::cuda
