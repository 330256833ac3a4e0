#include "onednn_ops.hpp"

#include <fmt/format.h>

#include <string_view>

#include "amx_products.hpp"
#include "bf16_attention.hpp"
#include "eigen_ops.hpp"
#include "one_pixel_conv2d.hpp"
#include "onednn_operators.hpp"
#include "ops_in_fp32.hpp"
#include "shape_checks.hpp"

namespace tutti {
namespace {

class OnednnOps final : public EigenOps<float> {
  public:
    explicit OnednnOps(dnnl::memory::data_type products, Winograd winograd = Winograd::faster)
        : winograd_(winograd) {
        context_->products = products;
    }

    /// Half of the memory that passes between operators that compute little. The kernels for a matrix unit
    /// take fp32.
    DType images() const override {
        return rounds_products() && !has_amx_products() ? DType::bf16 : DType::f32;
    }

    std::unique_ptr<LinearOp> linear(const LinearShape& shape) override {
        auto op = make_onednn_linear(shape, context_);
        return images() == DType::bf16 ? in_fp32(std::move(op)) : std::move(op);
    }
    std::unique_ptr<ReluLinearOp> relu_linear(const LinearShape& shape) override {
        return make_onednn_relu_linear(shape, context_);
    }
    std::unique_ptr<Conv2dOp> conv2d(const Conv2dShape& shape) override {
        check(shape);
        if (is_one_window(shape)) {
            auto op = make_one_pixel_conv2d(
                shape, DType::f32,
                [this](const LinearShape& one) { return make_onednn_linear(one, context_); },
                [this, shape] { return general_conv2d(shape); });
            return images() == DType::bf16 ? in_fp32(std::move(op)) : std::move(op);
        }
        return general_conv2d(shape);
    }

    void attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                           const TensorView& statistics, const TensorView& mask) override {
        if (attends_in_bf16(shape)) return bf16_attention_forward(shape, qkv, out, mask, *workspace());
        EigenOps<float>::attention_forward(shape, qkv, out, statistics, mask);
    }
    void attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                            const TensorView& statistics, const TensorView& dout, const TensorView& dqkv,
                            const TensorView& mask) override {
        if (attends_in_bf16(shape))
            return bf16_attention_backward(shape, qkv, dout, dqkv, mask, *workspace());
        EigenOps<float>::attention_backward(shape, qkv, out, statistics, dout, dqkv, mask);
    }

  private:
    std::unique_ptr<Conv2dOp> general_conv2d(const Conv2dShape& shape) {
        auto fallback = make_eigen_conv2d<float>(shape, workspace());
        if (images() == DType::bf16) fallback = in_fp32(std::move(fallback));
        return make_onednn_conv2d(shape, context_, std::move(fallback), winograd_);
    }
    bool rounds_products() const { return context_->products == dnnl::memory::data_type::bf16; }
    bool attends_in_bf16(const AttentionShape& shape) const {
        return rounds_products() && takes_bf16_attention(shape);
    }

    const Winograd winograd_;
    std::shared_ptr<OnednnContext> context_ =
        with_onednn_errors("anything", [] { return std::make_shared<OnednnContext>(); });
};

/// Without AVX-512 oneDNN has no products in bf16, or plain loops; with AVX-512 but without its BF16
/// instructions it widens them to fp32.
bool has_bf16_products(const OnednnContext& context) {
    using Type = dnnl::memory::data_type;
    using Tag = dnnl::memory::format_tag;
    const dnnl::memory::desc a({64, 64}, Type::bf16, Tag::ab), b({64, 64}, Type::bf16, Tag::ba);
    const dnnl::matmul::primitive_desc product({a, b, {{64, 64}, Type::f32, Tag::ab}}, context.attributes(),
                                               context.engine, /*allow_empty=*/true);
    return product && !std::string_view(product.impl_info_str()).starts_with("ref");
}

}  // namespace

std::unique_ptr<Ops> make_onednn_ops(Winograd winograd) {
    return std::make_unique<OnednnOps>(dnnl::memory::data_type::f32, winograd);
}

std::unique_ptr<Ops> make_onednn_bf16_ops() {
    const bool available =
        with_onednn_errors("products in bf16", [] { return has_bf16_products(OnednnContext()); });
    if (!available)
        throw UsageError(
            "train.precision bf16: " + fp32_library() +
                " has no bf16 products for this CPU (it wants AVX-512 with BF16, or at least AVX-512)",
            "set train.precision: fp32");
    return std::make_unique<OnednnOps>(dnnl::memory::data_type::bf16);
}

std::string fp32_library() {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace tutti
