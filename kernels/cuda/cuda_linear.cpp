// Linear layers as three products, with the bias and a residual in an epilogue, and of a GELU by tanh between
// two of them its value and its derivative; a bias's gradient has a kernel of its own, which differentiates
// an exact GELU behind it in the same pass. With products in bf16 each call first rounds those of its inputs
// that are not bf16 already (a graph's parameters are, Ops::product_inputs), and the bias where the result is
// bf16.

#include <set>

#include "activations.hpp"
#include "arena_ops.hpp"
#include "bias.hpp"
#include "cuda_ops.hpp"
#include "elementwise.hpp"
#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

class CudaLinear final : public GeluLinearOp {
  public:
    CudaLinear(const LinearShape& shape, ProductType type, std::shared_ptr<CudaContext> context,
               std::shared_ptr<CublasProducts> products, GeluForm gelu)
        : shape_(shape),
          type_(type),
          gelu_(gelu),
          context_(std::move(context)),
          products_(std::move(products)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        const std::int64_t batch = x.shape[0];
        assert(x.count() == batch * shape_.in && y.count() == batch * shape_.out);
        assert(weight.count() == shape_.out * shape_.in && bias.defined() == shape_.bias);
        if (batch == 0) return;
        const bool narrow = y.dtype == DType::bf16;
        assert(narrow || !bias.defined() || bias.dtype == DType::f32);
        const bool with_product = shape_.bias && !bias_refused_.contains(batch);
        const Inputs inputs = rounded({x, weight, narrow && with_product ? bias : TensorView{}});
        Product product = forward_product(y);
        if (with_product) {
            product.epilogue = ProductEpilogue::bias;
            const auto refusal =
                products_->try_to_multiply(product, 1, inputs[0].data, inputs[1].data, y.data,
                                           {.bias = narrow ? inputs[2].data : bias.data});
            if (!refusal) return;
            context_->notice("biases are added by a kernel of their own: " + *refusal);
            bias_refused_.insert(batch);
            product.epilogue = ProductEpilogue::none;
        }
        products_->multiply(product, 1, inputs[0].data, inputs[1].data, y.data);
        if (!shape_.bias) return;
        bias_forward(BiasActivation::none, y, narrow ? rounded_and_widened(bias) : bias, y,
                     context_->stream());
    }

    void residual_forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                          const TensorView& residual, const TensorView& y) override {
        assert(residual.count() == y.count() && residual.dtype == y.dtype);
        const std::int64_t batch = x.shape[0];
        if (batch == 0) return;
        if (!residual_refused_.contains(batch)) {
            const bool narrow = y.dtype == DType::bf16;
            const Inputs inputs = rounded({x, weight, narrow ? bias : TensorView{}});
            Product product = forward_product(y);
            product.adds = true;
            if (shape_.bias) product.epilogue = ProductEpilogue::bias;
            const auto refusal = products_->try_to_multiply(
                product, 1, inputs[0].data, inputs[1].data, y.data,
                {.bias = narrow ? inputs[2].data : bias.data, .addend = residual.data});
            if (!refusal) return;
            context_->notice("residuals are added by a kernel of their own: " + *refusal);
            residual_refused_.insert(batch);
        }
        forward(x, weight, bias, y);
        sum(y, residual, y, context_->stream());
    }

    void forward_gelu(const TensorView& x, const TensorView& weight, const TensorView& bias,
                      const TensorView& h, const TensorView& y) override {
        const bool kept = h.defined();
        assert(!kept || (h.count() == y.count() && h.dtype == y.dtype));
        assert(bias.defined() == shape_.bias);
        if (x.shape[0] == 0) return;
        std::set<std::int64_t>& refused = kept ? gelu_aux_refused_ : gelu_refused_;
        if (gelu_ == GeluForm::tanh && !refused.contains(x.shape[0])) {
            const bool narrow = y.dtype == DType::bf16;
            const Inputs inputs = rounded({x, weight, narrow ? bias : TensorView{}});
            Product product = forward_product(y);
            product.epilogue = kept ? ProductEpilogue::gelu_aux : ProductEpilogue::gelu;
            if (shape_.bias)
                product.epilogue = kept ? ProductEpilogue::bias_gelu_aux : ProductEpilogue::bias_gelu;
            const auto refusal =
                products_->try_to_multiply(product, 1, inputs[0].data, inputs[1].data, y.data,
                                           {.bias = narrow ? inputs[2].data : bias.data, .aux = h.data});
            if (!refusal) return;
            context_->notice("GELU has a kernel of its own: " + *refusal);
            refused.insert(x.shape[0]);
        }
        forward(x, weight, bias, kept ? h : y);
        gelu_forward(gelu_, kept ? h : y, y, context_->stream());
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        if (shape_.bias) backward_of_bias(BiasActivation::none, {}, dy, {}, dbias);
        backward_of_products(x, {}, weight, dy, dx, dweight, parameters_final);
    }
    void backward_through_gelu(const TensorView& x, const TensorView& h, const TensorView& weight,
                               const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                               const TensorView& dbias, const ParametersFinal* parameters_final) override {
        assert(gelu_ == GeluForm::exact && h.count() == dy.count() && h.dtype == dy.dtype);
        if (shape_.bias)
            backward_of_bias(BiasActivation::gelu, h, dy, dy, dbias);
        else
            gelu_backward(gelu_, h, dy, dy, context_->stream());
        backward_of_products(x, {}, weight, dy, dx, dweight, parameters_final);
    }
    void backward_gelu(const TensorView& x, const TensorView& h, const TensorView& weight,
                       const TensorView& dy, const TensorView& dh, const TensorView& dweight,
                       const TensorView& dbias, const ParametersFinal* parameters_final) override {
        assert(gelu_ == GeluForm::tanh && h.count() == dh.count() && h.dtype == dh.dtype);
        if (shape_.bias) backward_of_bias(BiasActivation::none, {}, dy, {}, dbias);
        backward_of_products(x, h, weight, dy, dh, dweight, parameters_final);
    }

  private:
    using Inputs = std::array<TensorView, 3>;

    Product forward_product(const TensorView& y) const {
        return {.m = y.shape[0],
                .n = shape_.out,
                .k = shape_.in,
                .a = {.row = shape_.in},
                .b = {.row = shape_.in, .transposed = true},
                .c = {.row = shape_.out},
                .type = type_,
                .result = y.dtype};
    }

    /// cuBLASLt's epilogue for it (CUBLASLT_EPILOGUE_BGRADB) is a pass of its own over dy, too, and a slower
    /// one: 3.6 ms of a ViT-B/16 step in bf16 on an H200, this 2.3 (2026-11-27). Before the products' inputs:
    /// they take its scratch memory.
    void backward_of_bias(BiasActivation behind, const TensorView& kept, const TensorView& dy,
                          const TensorView& dx, const TensorView& dbias) {
        const TensorView workspace = context_->scratch(DType::f64, {bias_workspace(dy, shape_.out)});
        bias_backward(behind, kept, {}, dy, dx, dbias, workspace, context_->stream());
    }

    /// With h, dx is the gradient of h.
    void backward_of_products(const TensorView& x, const TensorView& h, const TensorView& weight,
                              const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                              const ParametersFinal* parameters_final) {
        const std::int64_t batch = x.shape[0];
        assert(dy.count() == batch * shape_.out && dweight.count() == weight.count());
        if (batch == 0) {
            check(cudaMemsetAsync(dweight.data, 0, dweight.bytes(), context_->stream()), "cudaMemsetAsync");
            return;
        }
        const Inputs inputs = dx.defined() ? rounded({dy, x, weight}) : rounded({dy, x, {}});
        const Product of_weight{.m = shape_.out,
                                .n = shape_.in,
                                .k = batch,
                                .a = {.row = shape_.out, .transposed = true},
                                .b = {.row = shape_.in},
                                .c = {.row = shape_.in},
                                .type = type_};
        products_->multiply(of_weight, 1, inputs[0].data, inputs[1].data, dweight.data);
        if (!dx.defined()) return;
        if (parameters_final) (*parameters_final)();
        Product of_input{.m = batch,
                         .n = shape_.in,
                         .k = shape_.out,
                         .a = {.row = shape_.out},
                         .b = {.row = shape_.in},
                         .c = {.row = shape_.in},
                         .type = type_,
                         .result = dx.dtype};
        if (h.defined() && !gelu_gradient_refused_.contains(batch)) {
            of_input.epilogue = ProductEpilogue::gelu_gradient;
            const auto refusal = products_->try_to_multiply(of_input, 1, inputs[0].data, inputs[2].data,
                                                            dx.data, {.aux = h.data});
            if (!refusal) return;
            context_->notice("the derivative of GELU has a kernel of its own: " + *refusal);
            gelu_gradient_refused_.insert(batch);
            of_input.epilogue = ProductEpilogue::none;
        }
        products_->multiply(of_input, 1, inputs[0].data, inputs[2].data, dx.data);
        if (h.defined()) gelu_backward(GeluForm::tanh, h, dx, dx, context_->stream());
    }

    /// The same tensors as bf16 in scratch memory where the products want that.
    Inputs rounded(const Inputs& given) const {
        if (type_ != ProductType::bf16) return given;
        const auto wide = [](const TensorView& view) { return view.defined() && view.dtype != DType::bf16; };
        const auto copy_of = [&](const TensorView& view) {
            return Wanted{DType::bf16, wide(view) ? Shape{view.count()} : Shape{0}};
        };
        const Inputs copies = context_->scratch({copy_of(given[0]), copy_of(given[1]), copy_of(given[2])});
        Inputs result = given;
        for (std::size_t i = 0; i < given.size(); ++i) {
            if (!wide(given[i])) continue;
            cast(given[i], copies[i], context_->stream());
            result[i] = copies[i];
        }
        return result;
    }

    /// bf16 values in f32, in scratch memory: the same for a bias that was rounded before and one that was
    /// not.
    TensorView rounded_and_widened(const TensorView& bias) const {
        const auto [narrow, wide] =
            context_->scratch({Wanted{DType::bf16, bias.shape}, {DType::f32, bias.shape}});
        if (bias.dtype != DType::bf16) cast(bias, narrow, context_->stream());
        cast(bias.dtype != DType::bf16 ? narrow : bias, wide, context_->stream());
        return wide;
    }

    const LinearShape shape_;
    const ProductType type_;
    const GeluForm gelu_;  // behind it, or before
    const std::shared_ptr<CudaContext> context_;
    const std::shared_ptr<CublasProducts> products_;
    /// What comes with a product does so but in batches of the sizes for which cuBLASLt refused. Not of
    /// others: what a step computes would depend on the sizes of the batches before it.
    std::set<std::int64_t> bias_refused_, residual_refused_, gelu_refused_, gelu_aux_refused_,
        gelu_gradient_refused_;
};

}  // namespace

std::unique_ptr<GeluLinearOp> make_linear(const LinearShape& shape, ProductType type,
                                          std::shared_ptr<CudaContext> context,
                                          std::shared_ptr<CublasProducts> products, GeluForm gelu) {
    return std::make_unique<CudaLinear>(shape, type, std::move(context), std::move(products), gelu);
}

}  // namespace tutti::cuda
