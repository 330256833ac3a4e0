// Whole training steps on the CUDA device (with the fake GPU) beside the CPU's: the same loss and weights,
// and the order in which work reaches the GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../../kernels/common/bf16.hpp"
#include "cuda_device.hpp"
#include "cuda_step_models.hpp"
#include "fake_gpu.hpp"
#include "tutti/model/freezing.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/optimizer.hpp"

namespace tutti::test {
namespace {

constexpr std::int64_t batch = 3;

/// One model with its optimizer on one device.
class Training {
  public:
    Training(Device& device, GraphSpec spec, Arithmetic arithmetic, const std::string& optimizer,
             bool recompute = false)
        : device_(device),
          graph_(std::move(spec), device, arithmetic, batch, recompute),
          loss_(make_softmax_cross_entropy(device, graph_.compute())),
          labels_(device.allocate(batch * sizeof(std::int64_t), "labels")) {
        OptimConfig config;
        config.name = optimizer;
        config.momentum = 0.9;
        config.weight_decay = 0.01;
        optimizer_ = make_optimizer(config, graph_, device);
        graph_.initialize(7);
        const std::int64_t labels[batch] = {0, 3, 1};
        device_.copy_from_host(labels_view(), labels);
    }

    /// The mean loss of the batch before the update.
    double step(std::int64_t number) {
        const double loss = gradients(number);
        update(number);
        return loss;
    }

    /// The mean loss of batch `number`.
    double forward(std::int64_t number) {
        StepContext context;
        context.positions = positions_;
        return forward(number, context);
    }

    /// The same, with the gradients in their arena.
    double gradients(std::int64_t number) {
        StepContext context;
        context.positions = positions_;
        const double loss = forward(number, context);
        loss_->backward(labels_view(), 1.0 / batch, graph_.output_gradient(batch));
        graph_.backward(batch, context, [](std::size_t) {});
        return loss;
    }

    void update(std::int64_t number) {
        optimizer_->step(0.01, number);
        graph_.parameters_changed();
    }

    std::vector<NamedTensor> weights() const { return graph_.save(); }
    void load(const std::vector<NamedTensor>& weights) { graph_.load(weights, "a test"); }
    TensorView arena() const { return graph_.parameter_arena(); }
    void changed() { graph_.parameters_changed(); }
    GraphMemory memory() const { return graph_.memory(); }

  private:
    double forward(std::int64_t number, const StepContext& context) {
        const TensorView input = graph_.input(batch);
        std::vector<float> pixels(static_cast<std::size_t>(input.count()));
        for (std::size_t i = 0; i < pixels.size(); ++i)
            pixels[i] =
                static_cast<float>((i * 37 + static_cast<std::size_t>(number) * 11) % 101) / 101.0f - 0.5f;
        if (input.dtype == DType::bf16) {
            std::vector<Bf16> rounded;
            for (const float pixel : pixels) rounded.push_back(to_bf16(pixel));
            device_.copy_from_host(input, rounded.data());
        } else {
            device_.copy_from_host(input, pixels.data());
        }
        const TensorView logits = graph_.forward(batch, context);
        const LossSums sums = loss_->forward(logits, labels_view(), graph_.output_gradient(batch));
        return sums.loss / sums.weight;
    }

    TensorView labels_view() const { return labels_.view(0, DType::i64, {batch}); }

    Device& device_;
    Graph graph_;
    std::unique_ptr<Loss> loss_;
    Buffer labels_;
    std::unique_ptr<Optimizer> optimizer_;
    const std::vector<std::int64_t> positions_{0, 1, 2};
};

struct Case {
    const char* name;
    GraphSpec (*model)();
    const char* optimizer;
};

const Case cases[] = {{"convolutions with sgd", convolutions, "sgd"},
                      {"transformer with adamw", transformer, "adamw"},
                      {"transformer with lamb", transformer, "lamb"},
                      {"transformer without drop path", transformer_without_drop_path, "sgd"},
                      {"transformer with GELU by tanh", transformer_with_gelu_by_tanh, "sgd"},
                      {"GELU last", gelu_last, "sgd"},
                      {"sum last", sum_last, "sgd"},
                      {"lenet with adadelta", lenet, "adadelta"}};

double largest_difference(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
    EXPECT_EQ(a.size(), b.size());
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].name, b[i].name);
        if (a[i].dtype != DType::f32) continue;
        const auto* x = reinterpret_cast<const float*>(a[i].bytes.data());
        const auto* y = reinterpret_cast<const float*>(b[i].bytes.data());
        for (std::size_t k = 0; k < a[i].bytes.size() / sizeof(float); ++k)
            largest = std::max(largest, std::abs(static_cast<double>(x[k]) - static_cast<double>(y[k])));
    }
    return largest;
}

TEST(CudaStep, trains_as_the_cpu_does) {
    for (const Case& one : cases) {
        SCOPED_TRACE(one.name);
        fake_gpu::reset();
        cuda::CudaDevice gpu(0);
        const auto cpu = make_cpu_device(1);
        Training on_gpu(gpu, one.model(), DType::f32, one.optimizer);
        Training on_cpu(*cpu, one.model(), DType::f32, one.optimizer);
        ASSERT_EQ(largest_difference(on_gpu.weights(), on_cpu.weights()), 0);
        for (std::int64_t step = 1; step <= 3; ++step)
            EXPECT_NEAR(on_gpu.step(step), on_cpu.step(step), 2e-5) << "step " << step;
        // Adam divides small gradients by their own size: there a rounding moves a weight by as much as the
        // rate.
        EXPECT_LT(largest_difference(on_gpu.weights(), on_cpu.weights()), 2e-3);
    }
}

/// What is not frozen trains as on the CPU, and as near to that in bf16 as without anything frozen.
TEST(CudaStep, frozen_weights_keep_their_bits) {
    struct Frozen {
        GraphSpec (*model)();
        std::vector<std::string> trained;
        bool keeps_statistics = false;
    };
    const Frozen models[] = {{residuals, {"second", "fc"}},
                             {residuals, {"first_norm", "shortcut"}},
                             {residuals, {"second", "fc"}, true},
                             {residuals, {"stem", "first", "second", "shortcut"}, true},
                             {convolutions, {"4", "7.bias"}},
                             {transformer, {"blocks.1.norm1", "blocks.1.attn", "head"}},
                             {transformer_with_gelu_by_tanh, {"blocks.0.mlp.fc2", "pos_embed"}},
                             {transformer_without_drop_path, {"blocks.1.mlp.fc2", "head"}},
                             {lenet, {"conv2", "fc1"}}};
    const auto made = [](const Frozen& one) {
        GraphSpec spec = one.model();
        freeze(spec, one.trained, true, "model.freeze_except");
        if (one.keeps_statistics) freeze_statistics(spec, "model.freeze_statistics");
        return spec;
    };
    for (const Frozen& one : models) {
        SCOPED_TRACE(one.trained.front());
        fake_gpu::reset();
        cuda::CudaDevice gpu(0);
        const auto cpu = make_cpu_device(1);
        Training on_gpu(gpu, made(one), DType::f32, "sgd"), on_cpu(*cpu, made(one), DType::f32, "sgd");
        Training narrow(gpu, made(one), {DType::f32, DType::bf16}, "sgd");
        const std::vector<NamedTensor> before = on_gpu.weights();
        for (std::int64_t step = 1; step <= 3; ++step) {
            const double expected = on_cpu.step(step);
            EXPECT_NEAR(on_gpu.step(step), expected, 2e-5) << "step " << step;
            EXPECT_NEAR(narrow.step(step), expected, 3e-2) << "step " << step;
        }
        EXPECT_LT(largest_difference(on_gpu.weights(), on_cpu.weights()), 2e-3);
        for (const Training* training : {&on_gpu, &narrow}) {
            const std::vector<NamedTensor> after = training->weights();
            for (std::size_t i = 0; i < before.size(); ++i) {
                const bool statistics =
                    !one.keeps_statistics && (before[i].name.find("running_") != std::string::npos ||
                                              before[i].name.ends_with("num_batches_tracked"));
                const bool trained = std::ranges::any_of(
                    one.trained, [&](const std::string& part) { return names_tensor(part, before[i].name); });
                EXPECT_EQ(before[i].bytes != after[i].bytes, trained || statistics) << before[i].name;
            }
        }
    }
}

TEST(CudaStep, products_in_tf32_and_bf16_stay_near_fp32) {
    for (const Arithmetic& arithmetic : {Arithmetic::tf32(), Arithmetic(DType::f32, DType::bf16)})
        for (GraphSpec (*model)() : {&convolutions, &residuals, &transformer, &transformer_without_drop_path,
                                     &transformer_with_gelu_by_tanh, &gelu_last, &sum_last, &lenet}) {
            fake_gpu::reset();
            cuda::CudaDevice gpu(0);
            Training rounded(gpu, model(), arithmetic, "sgd");
            Training exact(gpu, model(), DType::f32, "sgd");
            const double tolerance = arithmetic.rounds_to_tf32 ? 2e-3 : 3e-2;
            bool differs = false;
            for (std::int64_t step = 1; step <= 3; ++step) {
                const double expected = exact.step(step), loss = rounded.step(step);
                EXPECT_NEAR(loss, expected, tolerance);
                differs = differs || loss != expected;
            }
            EXPECT_TRUE(differs);
        }
}

TEST(CudaStep, activations_in_bf16_take_half_the_memory_and_are_rounded_nowhere_else) {
    fake_gpu::reset();
    cuda::CudaDevice gpu(0);
    Training narrow(gpu, residuals(), {DType::f32, DType::bf16}, "sgd");
    Training wide(gpu, residuals(), DType::f32, "sgd");
    // The statistics of batch normalisation stay f64.
    EXPECT_LT(narrow.memory().activations, wide.memory().activations * 6 / 10);
    EXPECT_EQ(narrow.memory().parameters, wide.memory().parameters);
    narrow.step(1);
    fake_gpu::clear_record();
    narrow.step(2);
    const auto launches = [](const std::string& kernel) {
        return std::ranges::count_if(fake_gpu::record(), [&](const std::string& line) {
            return line.find("launch " + kernel) != std::string::npos;
        });
    };
    // Of four convolutions the weights' gradients on their way back; the stem's have channels to be padded,
    // and so have its weights, and its images, twice. The gradient of the logits; and all parameters, once.
    EXPECT_EQ(launches("cast"), 3 + 1 + 1);
    EXPECT_EQ(launches("pad_channels"), 2 + 2);
}

TEST(CudaStep, parameters_are_rounded_once_per_update) {
    const auto casts = [] {
        return std::ranges::count_if(fake_gpu::record(), [](const std::string& line) {
            return line.find("launch cast") != std::string::npos;
        });
    };
    fake_gpu::reset();
    cuda::CudaDevice gpu(0);
    Training training(gpu, transformer(), {DType::f32, DType::bf16}, "sgd");
    EXPECT_EQ(training.memory().rounded, training.memory().parameters / 2);
    training.step(1);
    fake_gpu::clear_record();
    training.forward(2);
    EXPECT_EQ(casts(), 1)
        << "an evaluation rounds nothing but the patch embedding's bias, which comes in f32";
    training.gradients(2);
    training.gradients(3);
    EXPECT_EQ(casts(), 1 + 2 + 2) << "of two micro-batches that bias and the gradients of the logits";
    training.update(2);
    EXPECT_EQ(casts(), 1 + 2 + 2 + 1);

    Training exact(gpu, transformer(), DType::f32, "sgd");
    EXPECT_EQ(exact.memory().rounded, 0U);
}

TEST(CudaStep, products_in_bf16_read_the_parameters_as_they_are) {
    for (GraphSpec (*model)() : {&convolutions, &residuals, &transformer, &lenet}) {
        fake_gpu::reset();
        cuda::CudaDevice gpu(0);
        constexpr Arithmetic bf16{DType::f32, DType::bf16};
        Training trained(gpu, model(), bf16, "sgd"), loaded(gpu, model(), bf16, "sgd");
        const double before = trained.step(1);
        trained.step(2);
        // A graph that rounds what it has read from a file, beside one that did after its update.
        loaded.load(trained.weights());
        const double after = trained.forward(1);
        EXPECT_EQ(loaded.forward(1), after);
        EXPECT_NE(after, before);
        // What is written through a view is told.
        const TensorView arena = loaded.arena();
        const std::vector<std::byte> zeros(arena.bytes());
        gpu.copy_from_host(arena, zeros.data());
        loaded.changed();
        const double log_of_classes = std::log(model_classes);
        EXPECT_NEAR(loaded.forward(1), log_of_classes, 1e-6);
    }
}

TEST(CudaStep, attention_in_bf16_is_computed_once_each_way) {
    fake_gpu::reset();
    cuda::CudaDevice gpu(0);
    // By cuDNN's engines, and by kernels of our own.
    for (const bool wide_heads : {false, true}) {
        const auto model = wide_heads ? &transformer_with_wide_heads : &transformer;
        Training rounded(gpu, model(), Arithmetic(DType::f32, DType::bf16), "sgd");
        Training exact(gpu, model(), DType::f32, "sgd");
        for (std::int64_t step = 1; step <= 3; ++step) {
            const double expected = exact.step(step);
            fake_gpu::clear_record();
            EXPECT_NEAR(rounded.step(step), expected, 2e-2);
            for (const std::string pass : {"forward", "backward"})
                EXPECT_EQ(std::count_if(fake_gpu::record().begin(), fake_gpu::record().end(),
                                        [&](const std::string& line) {
                                            return line.ends_with(wide_heads
                                                                      ? "launch short_attention_" + pass
                                                                      : "attention " + pass);
                                        }),
                          2)
                    << pass << " of two blocks";
        }
    }
}

/// The record without waits, copies and fills: what a step computes.
std::vector<std::string> computed() {
    std::vector<std::string> result;
    for (const std::string& line : fake_gpu::record())
        if (line.find("launch ") != std::string::npos || line.find("convolution ") != std::string::npos ||
            line.find("product") != std::string::npos)
            result.push_back(line);
    return result;
}

TEST(CudaStep, is_issued_to_one_stream_in_order_and_waits_for_its_loss_alone) {
    fake_gpu::reset();
    cuda::CudaDevice gpu(0);
    Training training(gpu, convolutions(), DType::f32, "sgd");
    training.step(1);
    const std::size_t memory = fake_gpu::live_allocations();
    fake_gpu::clear_record();
    training.step(2);
    EXPECT_EQ(fake_gpu::live_allocations(), memory) << "a step after the first allocates nothing";
    const char* const expected[] = {"stream 1: convolution forward",
                                    "stream 1: launch bias_forward",
                                    "stream 1: launch batch_norm_moments",
                                    "stream 1: launch batch_norm_moments sum",
                                    "stream 1: launch batch_norm_forward",
                                    "stream 1: launch max_pool2d_forward",
                                    "stream 1: convolution forward",
                                    "stream 1: launch bias_forward",
                                    "stream 1: launch dropout_forward",
                                    "stream 1: product",
                                    "stream 1: launch batch_norm_track",
                                    "stream 1: launch softmax_cross_entropy_forward",
                                    "stream 1: launch softmax_cross_entropy_forward sum",
                                    "stream 1: launch softmax_cross_entropy_backward",
                                    "stream 1: launch bias_backward",
                                    "stream 1: launch bias_backward sum",
                                    "stream 1: product",
                                    "stream 1: product",
                                    "stream 1: launch dropout_backward",
                                    "stream 1: launch bias_backward",
                                    "stream 1: launch bias_backward sum",
                                    "stream 1: convolution backward to the weights",
                                    "stream 1: convolution backward to x",
                                    "stream 1: launch max_pool2d_backward",
                                    "stream 1: launch batch_norm_backward_sums",
                                    "stream 1: launch batch_norm_backward_sums sum",
                                    "stream 1: launch batch_norm_backward",
                                    "stream 1: launch bias_backward",
                                    "stream 1: launch bias_backward sum",
                                    "stream 1: convolution backward to the weights",
                                    "stream 1: launch sgd of a segment"};
    EXPECT_EQ(computed(), std::vector<std::string>(std::begin(expected), std::end(expected)));
    const auto count = [](const std::string& part) {
        return std::count_if(fake_gpu::record().begin(), fake_gpu::record().end(),
                             [&](const std::string& line) { return line.find(part) != std::string::npos; });
    };
    EXPECT_EQ(count("host: build"), 0) << "plans are made once per shape";
    EXPECT_EQ(count("host: choose"), 0);
    EXPECT_EQ(count("host: wait"), 2) << "for the pixels, which the host may change then, and for the loss";
    EXPECT_EQ(count("stream 0"), 0);
}

TEST(CudaStep, with_residuals_fused_into_the_normalisation_is_the_cpus) {
    fake_gpu::reset();
    cuda::CudaDevice gpu(0);
    const auto cpu = make_cpu_device(1);
    Training on_gpu(gpu, residuals(), DType::f32, "sgd"), on_cpu(*cpu, residuals(), DType::f32, "sgd");
    for (std::int64_t step = 1; step <= 2; ++step)
        EXPECT_NEAR(on_gpu.step(step), on_cpu.step(step), 1e-4) << "step " << step;
    EXPECT_LT(largest_difference(on_gpu.weights(), on_cpu.weights()), 2e-3);
    for (const std::string& line : computed()) {
        EXPECT_EQ(line.find("relu"), std::string::npos) << line;
        EXPECT_EQ(line.find("launch sum"), std::string::npos) << line;
    }
}

TEST(CudaStep, leaves_gelus_to_the_linear_layers_beside_them) {
    const auto of = [](const std::string& kernel) {
        return std::ranges::count_if(fake_gpu::record(), [&](const std::string& line) {
            return line.find("launch " + kernel) != std::string::npos;
        });
    };
    std::vector<std::int64_t> of_biases;
    for (const auto& [model, forward] :
         {std::pair{&transformer, 2}, std::pair{&transformer_with_gelu_by_tanh, 0}}) {
        fake_gpu::reset();
        cuda::CudaDevice gpu(0);
        Training training(gpu, model(), {DType::f32, DType::bf16}, "sgd");
        training.step(1);
        EXPECT_EQ(of("gelu_forward"), forward);
        EXPECT_EQ(of("gelu_backward"), 0);
        of_biases.push_back(of("bias_backward"));
    }
    EXPECT_GT(of_biases[0], 0);
    EXPECT_EQ(of_biases[0], of_biases[1]) << "the exact form's derivative is in a pass that there is anyway";
}

TEST(CudaStep, recomputes_a_transformer_with_the_same_bits) {
    for (GraphSpec (*model)() : {&transformer, &transformer_without_drop_path})
        for (const DType products : {DType::f32, DType::bf16}) {
            fake_gpu::reset();
            cuda::CudaDevice gpu(0);
            Training once(gpu, model(), {DType::f32, products}, "sgd");
            Training again(gpu, model(), {DType::f32, products}, "sgd", true);
            EXPECT_LT(again.memory().activations, once.memory().activations);
            for (std::int64_t step = 1; step <= 2; ++step) EXPECT_EQ(again.step(step), once.step(step));
            EXPECT_EQ(largest_difference(again.weights(), once.weights()), 0);
        }
}

TEST(CudaStep, a_transformer_neither_sums_nor_copies_its_residuals) {
    fake_gpu::reset();
    cuda::CudaDevice gpu(0);
    Training training(gpu, transformer_without_drop_path(), {DType::f32, DType::bf16}, "sgd");
    fake_gpu::clear_record();
    training.gradients(1);
    for (const std::string& line : fake_gpu::record())
        for (const char* pass : {"launch sum", "within the device"})
            EXPECT_EQ(line.find(pass), std::string::npos) << line;
}

TEST(CudaStep, leaves_nothing_on_the_gpu) {
    fake_gpu::reset();
    const std::size_t before = fake_gpu::live_allocations();
    {
        cuda::CudaDevice gpu(0);
        Training training(gpu, transformer(), DType::f32, "adamw");
        training.step(1);
        EXPECT_GT(fake_gpu::live_allocations(), before);
    }
    EXPECT_EQ(fake_gpu::live_allocations(), before);
}

}  // namespace
}  // namespace tutti::test
