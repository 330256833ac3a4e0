// Convolution through cuDNN, the bias by our own kernels. With products in bf16, tensors that are not bf16 or
// have fewer channels than tensor cores want are rounded and padded into scratch memory; the result, which
// cuDNN rounds to bf16, is widened where that is asked for: of the weights' gradient. Forward of a
// convolution of stride 2 over few channels, an image model's first, is computed as one of stride 1 over many
// (space_to_depth.hpp); its gradients are not: to the weights of ResNet's the folded one took 2.8 ms on an
// H200 (256 images, 2026-11-27), the padded one 0.9.

#include <map>
#include <optional>

#include "arena_ops.hpp"
#include "bias.hpp"
#include "channel_padding.hpp"
#include "cuda_ops.hpp"
#include "cudnn_convolution.hpp"
#include "gpu_error.hpp"
#include "space_to_depth.hpp"

namespace tutti::cuda {
namespace {

class CudaConv2d final : public Conv2dOp {
  public:
    CudaConv2d(const Conv2dShape& shape, ProductType type, std::shared_ptr<CudaContext> context,
               std::shared_ptr<ConvolutionPlans> plans)
        : given_(shape),
          computed_(padded(shape, type)),
          folded_(type == ProductType::bf16 ? folded(shape) : std::nullopt),
          type_(type),
          context_(std::move(context)),
          all_plans_(std::move(plans)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        assert(bias.defined() == given_.bias);
        if (x.shape[0] == 0) return;
        run(ConvolutionPass::forward, x, weight, y);
        if (given_.bias) bias_forward(BiasActivation::none, y, bias, y, context_->stream());
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        assert(dbias.defined() == given_.bias);
        if (given_.bias) {
            const TensorView workspace = context_->scratch(DType::f64, {bias_workspace(dy, given_.out)});
            bias_backward(BiasActivation::none, {}, {}, dy, {}, dbias, workspace, context_->stream());
        }
        if (x.shape[0] == 0) {
            check(cudaMemsetAsync(dweight.data, 0, dweight.bytes(), context_->stream()), "cudaMemsetAsync");
            return;
        }
        run(ConvolutionPass::backward_weight, x, dweight, dy);
        if (!dx.defined()) return;
        if (parameters_final) (*parameters_final)();
        backward_data(weight, dy, dx);
    }

    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        if (dy.shape[0] == 0) return;
        run(ConvolutionPass::backward_data, dx, weight, dy);
    }

  private:
    bool folds(ConvolutionPass pass) const { return folded_ && pass == ConvolutionPass::forward; }

    ConvolutionPlan& plan(ConvolutionPass pass, std::int64_t batch) {
        ConvolutionPlan*& plan = plans_[{pass, batch}];
        if (!plan)
            plan = &all_plans_->find({pass, type_, batch, folds(pass) ? *folded_ : computed_},
                                     {.handle = context_->cudnn()},
                                     context_->trials() ? EngineTrials::most_engines : 1);
        return *plan;
    }

    void execute(ConvolutionPlan& chosen, std::byte* x, std::byte* weight, std::byte* y) const {
        EngineTrials* const trials = context_->trials();
        if (trials && chosen.has_other_engines())
            chosen.take_fastest(*trials, context_->cudnn(), x, weight, y);
        const auto bytes = static_cast<std::size_t>(chosen.workspace_bytes());
        chosen.execute(context_->cudnn(), x, weight, y, context_->library_workspace().reserve(bytes));
    }

    /// Of x, weight and y the pass's result is written, the others are read.
    void run(ConvolutionPass pass, const TensorView& x, const TensorView& weight, const TensorView& y) {
        const std::int64_t batch = y.shape[0];
        const Conv2dShape& s = given_;
        assert(x.count() == batch * s.height * s.width * s.in);
        assert(y.count() == batch * s.out_height() * s.out_width() * s.out);
        assert(weight.count() == s.out * s.kernel_h * s.kernel_w * (s.in / s.groups));
        ConvolutionPlan& chosen = plan(pass, batch);
        if (type_ != ProductType::bf16) return execute(chosen, x.data, weight.data, y.data);
        if (folds(pass)) return forward_folded(chosen, x, weight, y);
        const std::int64_t in = s.in, more = computed_.in;
        const std::array<TensorView, 3> wide{
            x.reshaped({x.count() / in, in}),
            weight.reshaped({weight.count() / (in / s.groups), in / s.groups}),
            y.reshaped({y.count() / s.out, s.out})};
        const std::array<Shape, 3> shapes{
            Shape{wide[0].shape[0], more}, {wide[1].shape[0], more / s.groups}, wide[2].shape};
        const auto fits = [&](std::size_t i) {
            return wide[i].dtype == DType::bf16 && wide[i].shape == shapes[i];
        };
        const auto copy_of = [&](std::size_t i) {
            return Wanted{DType::bf16, fits(i) ? Shape{0} : shapes[i]};
        };
        std::array<TensorView, 3> narrow = context_->scratch({copy_of(0), copy_of(1), copy_of(2)});
        const std::size_t result = pass == ConvolutionPass::forward         ? 2
                                   : pass == ConvolutionPass::backward_data ? 0
                                                                            : 1;
        assert(result != 0 || !s.adds_to_dx || fits(0));  // else adds_conv2d_gradient has said no
        for (std::size_t i = 0; i < 3; ++i) {
            if (fits(i))
                narrow[i] = wide[i];
            else if (i != result)
                convert(wide[i], narrow[i]);
        }
        execute(chosen, narrow[0].data, narrow[1].data, narrow[2].data);
        if (!fits(result)) convert(narrow[result], wide[result]);
    }

    /// y's memory is that of the folded convolution's y.
    void forward_folded(ConvolutionPlan& chosen, const TensorView& x, const TensorView& weight,
                        const TensorView& y) const {
        const Conv2dShape& f = *folded_;
        const bool rounds_y = y.dtype != DType::bf16;
        const auto [cells, weights, narrow_y] =
            context_->scratch({{DType::bf16, {y.shape[0], f.height, f.width, f.in}},
                               {DType::bf16, {f.out, f.kernel_h, f.kernel_w, f.in}},
                               {DType::bf16, rounds_y ? y.shape : Shape{0}}});
        const TensorView& computed_y = rounds_y ? narrow_y : y;
        const Stream stream = context_->stream();
        space_to_depth(given_, x, cells, stream);
        fold_weight(given_, weight, weights, stream);
        execute(chosen, cells.data, weights.data, computed_y.data);
        if (rounds_y) cast(computed_y, y, stream);
    }

    void convert(const TensorView& from, const TensorView& to) const {
        if (from.shape == to.shape)
            cast(from, to, context_->stream());
        else
            pad_channels(from, to, context_->stream());
    }

    const Conv2dShape given_, computed_;
    const std::optional<Conv2dShape> folded_;
    const ProductType type_;
    const std::shared_ptr<CudaContext> context_;
    const std::shared_ptr<ConvolutionPlans> all_plans_;
    // This layer's, by batch size: a run has few (full, the epoch's last, evaluation).
    std::map<std::pair<ConvolutionPass, std::int64_t>, ConvolutionPlan*> plans_;
};

}  // namespace

std::unique_ptr<Conv2dOp> make_conv2d(const Conv2dShape& shape, ProductType type,
                                      std::shared_ptr<CudaContext> context,
                                      std::shared_ptr<ConvolutionPlans> plans) {
    return std::make_unique<CudaConv2d>(shape, type, std::move(context), std::move(plans));
}

}  // namespace tutti::cuda
