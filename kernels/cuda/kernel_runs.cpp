#include "kernel_runs.hpp"

#include "batch_norm.hpp"
#include "layer_norm.hpp"
#include "location_loss.hpp"
#include "non_finite.hpp"
#include "regression_loss.hpp"
#include "segment_loss.hpp"
#include "softmax_cross_entropy.hpp"
#include "sum_of_squares.hpp"

namespace tutti::cuda {
namespace {

bool has(const KernelCase& c, const char* word) {
    return c.variant.find(word) != std::string::npos;
}

/// The tensors of one batch normalisation.
struct BatchNorm {
    TensorView x, dy, y, dx, dresidual, weight, bias, shift, gradient, normalizer, moments, sums, workspace;
    BatchNorm(DeviceArena& arena, const KernelCase& c)
        : x(arena.tensor(c.dtype, {c.rows, c.width})),
          dy(arena.tensor(c.dtype, {c.rows, c.width})),
          y(arena.tensor(c.dtype, {c.rows, c.width})),
          dx(arena.tensor(c.dtype, {c.rows, c.width})),
          dresidual(has(c, "add") ? arena.tensor(c.dtype, {c.rows, c.width}) : TensorView{}),
          weight(arena.tensor(DType::f32, {c.width})),
          bias(arena.tensor(DType::f32, {c.width})),
          shift(arena.tensor(DType::f32, {c.width})),
          gradient(arena.tensor(DType::f32, {c.width})),
          normalizer(arena.tensor(DType::f64, {1 + 2 * c.width})),
          moments(arena.tensor(DType::f64, {1 + 2 * c.width})),
          sums(arena.tensor(DType::f64, {2 * c.width})),
          workspace(arena.tensor(DType::f64, {batch_norm_workspace(x, c.width)})) {}
};

KernelRun moments(DeviceArena& arena, const KernelCase& c) {
    return [b = BatchNorm(arena, c)](Stream stream) {
        batch_norm_moments(b.x, b.shift, b.workspace, b.moments, stream);
    };
}
KernelRun forward(DeviceArena& arena, const KernelCase& c) {
    return [b = BatchNorm(arena, c), relu = has(c, "relu")](Stream stream) {
        batch_norm_forward(b.x, b.normalizer, b.weight, b.bias, {.residual = b.dresidual, .relu = relu}, b.y,
                           stream);
    };
}
/// Behind an addition the forward's result says what a ReLU let pass; else it is computed again.
BatchNormRelu relu_of(const BatchNorm& b, const KernelCase& c) {
    if (!has(c, "relu")) return {};
    if (has(c, "add")) return {.y = b.y};
    return {.weight = b.weight, .bias = b.bias};
}
KernelRun backward_sums(DeviceArena& arena, const KernelCase& c) {
    const BatchNorm b(arena, c);
    return [b, relu = relu_of(b, c)](Stream stream) {
        batch_norm_backward_sums(b.x, b.dy, relu, b.normalizer, b.dresidual, b.workspace, b.sums, b.shift,
                                 b.gradient, stream);
    };
}
KernelRun backward(DeviceArena& arena, const KernelCase& c) {
    const BatchNorm b(arena, c);
    // Behind an addition the sums have written the gradient that passed the ReLU.
    return [b, relu = has(c, "add") ? BatchNormRelu{} : relu_of(b, c)](Stream stream) {
        batch_norm_backward(b.x, b.dy, relu, b.normalizer, b.weight, b.sums, b.dx, stream);
    };
}

KernelRun layer_norm(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const TensorView x = arena.tensor(c.dtype, {c.rows, c.width}),
                     y = arena.tensor(c.dtype, {c.rows, c.width});
    const TensorView gamma = arena.tensor(DType::f32, {c.width}), beta = arena.tensor(DType::f32, {c.width});
    const TensorView statistics = arena.tensor(DType::f64, {c.rows, 2});
    if (is_forward)
        return [=](Stream stream) { layer_norm_forward(x, gamma, beta, 1e-5, y, statistics, stream); };
    const TensorView dx = arena.tensor(c.dtype, {c.rows, c.width}),
                     dgamma = arena.tensor(DType::f32, {c.width});
    const TensorView workspace = arena.tensor(DType::f32, {layer_norm_workspace(c.rows, c.width)});
    return [=](Stream stream) {
        layer_norm_backward(x, gamma, statistics, y, workspace, dx, dgamma, beta, {}, stream);
    };
}

KernelRun cross_entropy(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const TensorView logits = arena.tensor(c.dtype, {c.rows, c.width}),
                     p = arena.tensor(DType::f32, {c.rows, c.width});
    const TensorView labels = arena.tensor(DType::i64, {c.rows}, 0);
    const TensorView workspace = arena.tensor(DType::f64, {2 * c.rows});
    const TensorView sums = arena.tensor(DType::f64, {3}), scale = arena.tensor(std::vector<double>{0.5});
    if (is_forward)
        return [=](Stream stream) {
            softmax_cross_entropy_forward(logits, labels, workspace, p, sums, 0, stream);
        };
    return [=](Stream stream) { softmax_cross_entropy_backward(p, labels, scale, logits, 0, stream); };
}

KernelRun regression(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    const TensorView outputs = arena.tensor(c.dtype, {c.rows, c.width}),
                     targets = arena.tensor(DType::f32, {c.rows, c.width});
    const TensorView scale = arena.tensor(std::vector<double>{0.5});
    constexpr RegressionLoss kind = RegressionLoss::huber;
    if (!is_forward)
        return [=](Stream stream) { regression_loss_backward(targets, scale, kind, outputs, stream); };
    const TensorView differences = arena.tensor(DType::f32, {c.rows, c.width});
    const TensorView workspace = arena.tensor(DType::f64, {c.rows}), sums = arena.tensor(DType::f64, {3});
    return [=](Stream stream) {
        regression_loss_forward(outputs, targets, workspace, kind, differences, sums, stream);
    };
}

KernelRun location(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    constexpr std::int64_t side = 96;
    const Shape shape{c.rows / (side * side), side, side, c.width};
    const TensorView outputs = arena.tensor(c.dtype, shape), differences = arena.tensor(DType::f32, shape);
    const TensorView scale = arena.tensor(std::vector<double>{0.5});
    if (!is_forward)
        return [=](Stream stream) { location_loss_backward(differences, scale, {}, outputs, stream); };
    const TensorView wanted = arena.tensor(DType::f32, {shape[0], 3});
    const TensorView workspace = arena.tensor(DType::f64, {2 * shape[0]}),
                     sums = arena.tensor(DType::f64, {3});
    return [=](Stream stream) {
        location_loss_forward(outputs, wanted, workspace, {}, differences, sums, stream);
    };
}

KernelRun segments(DeviceArena& arena, const KernelCase& c, bool is_forward) {
    constexpr std::int64_t seconds = 1800;
    const Shape shape{c.rows / seconds, seconds, c.width};
    const TensorView outputs = arena.tensor(c.dtype, shape), gradients = arena.tensor(c.dtype, shape);
    const TensorView scale = arena.tensor(std::vector<double>{0.5});
    if (!is_forward) return [=](Stream stream) { segment_loss_backward(gradients, scale, outputs, stream); };
    const TensorView wanted = arena.tensor(DType::f32, {shape[0], 2 * seconds});
    const TensorView workspace = arena.tensor(DType::f64, {2 * shape[0]}),
                     sums = arena.tensor(DType::f64, {3});
    return
        [=](Stream stream) { segment_loss_forward(outputs, wanted, workspace, {}, gradients, sums, stream); };
}

KernelRun norm(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = arena.tensor(c.dtype, {c.width}), sum = arena.tensor(DType::f64, {1});
    const TensorView workspace = arena.tensor(DType::f64, {sum_of_squares_workspace(c.width)});
    return [=](Stream stream) { sum_of_squares(x, workspace, sum, stream); };
}

KernelRun non_finite(DeviceArena& arena, const KernelCase& c) {
    const TensorView x = arena.tensor(c.dtype, {c.width}), flags = arena.tensor(DType::i64, {2});
    const TensorView offsets = arena.tensor(std::vector<std::int64_t>{0, c.width / 2, c.width});
    return [=](Stream stream) { find_non_finite(x, offsets, flags, stream); };
}

constexpr NamedRun runs[] = {
    {"batch_norm_moments", moments},
    {"batch_norm_forward", forward},
    {"batch_norm_backward_sums", backward_sums},
    {"batch_norm_backward", backward},
    {"layer_norm_forward", [](DeviceArena& a, const KernelCase& c) { return layer_norm(a, c, true); }},
    {"layer_norm_backward", [](DeviceArena& a, const KernelCase& c) { return layer_norm(a, c, false); }},
    {"softmax_cross_entropy_forward",
     [](DeviceArena& a, const KernelCase& c) { return cross_entropy(a, c, true); }},
    {"softmax_cross_entropy_backward",
     [](DeviceArena& a, const KernelCase& c) { return cross_entropy(a, c, false); }},
    {"regression_loss_forward", [](DeviceArena& a, const KernelCase& c) { return regression(a, c, true); }},
    {"regression_loss_backward", [](DeviceArena& a, const KernelCase& c) { return regression(a, c, false); }},
    {"location_loss_forward", [](DeviceArena& a, const KernelCase& c) { return location(a, c, true); }},
    {"location_loss_backward", [](DeviceArena& a, const KernelCase& c) { return location(a, c, false); }},
    {"segment_loss_forward", [](DeviceArena& a, const KernelCase& c) { return segments(a, c, true); }},
    {"segment_loss_backward", [](DeviceArena& a, const KernelCase& c) { return segments(a, c, false); }},
    {"sum_of_squares", norm},
    {"find_non_finite", non_finite},
};

}  // namespace

PrepareRun find_run(const std::string& kernel) {
    for (const auto& table : {std::span<const NamedRun>(runs), layer_runs(), arena_runs()})
        for (const NamedRun& run : table)
            if (kernel == run.kernel) return run.prepare;
    return nullptr;
}

}  // namespace tutti::cuda
