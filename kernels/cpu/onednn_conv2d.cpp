// Convolution on NHWC activations, each pass in the way that onednn_convolution_ways.hpp chooses. oneDNN
// chooses the order of the weights; the plain weights [O, KH, KW, I/groups] are brought into it before, and
// weight gradients back after, each call. With products in bf16 each call rounds its inputs that are not
// bf16. What both products of backward take alike of dy is brought once. Weight gradients in bf16 are our own
// where bf16_weight_gradient.hpp takes them, and dx is then a convolution forward where that is the faster;
// windows of 3×3 in bf16 go by our own Winograd where bf16_winograd.hpp and bf16_winograd_gradient.hpp take
// them, those that move by 2 where bf16_phases.hpp does, in fp32, as well as windows of 4×4 that move by 2,
// where fp32_winograd.hpp does and is faster than the library. With a matrix unit all of bf16 that
// amx_convolution.hpp takes goes by that.

#include "amx_convolution.hpp"
#include "amx_weight_gradient.hpp"
#include "bf16_phase_gradient.hpp"
#include "bf16_phases.hpp"
#include "bf16_weight_gradient.hpp"
#include "bf16_winograd.hpp"
#include "bf16_winograd_gradient.hpp"
#include "fp32_winograd.hpp"
#include "fp32_winograd_gradient.hpp"
#include "onednn_convolution_plans.hpp"
#include "onednn_operators.hpp"
#include "onednn_turned_conv2d.hpp"
#include "ops_in_fp32.hpp"
#include "parallel.hpp"
#include "shape_checks.hpp"
#include "tile_vector.hpp"

namespace tutti {
namespace {

using Pass = ConvolutionPass;
using Types = OnednnConvolutionPlans::Types;

/// compute(values), as they lie in memory: const float* or const std::uint16_t*, which is bf16.
template <class Compute>
void with_values(const TensorView& values, const Compute& compute) {
    if (values.dtype == DType::bf16)
        compute(reinterpret_cast<std::uint16_t*>(values.data));
    else
        compute(values.as<float>());
}
/// Of two that are of one type.
template <class Compute>
void with_values(const TensorView& first, const TensorView& second, const Compute& compute) {
    assert(first.dtype == second.dtype);
    with_values(first,
                [&]<class Value>(Value* values) { compute(values, reinterpret_cast<Value*>(second.data)); });
}

struct ByMatrixUnit {
    AmxConvolution products;
    AmxWeightGradient weight_gradient;
    explicit ByMatrixUnit(const Conv2dShape& shape) : products(shape), weight_gradient(shape) {}
};

class OnednnConv2d final : public Conv2dOp {
  public:
    OnednnConv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context,
                 std::unique_ptr<Conv2dOp> fallback, Winograd winograd)
        : shape_(shape),
          name_(describe(shape)),
          context_(std::move(context)),
          fallback_(std::move(fallback)),
          plans_(shape),
          own_weight_gradient_(context_->products == dnnl::memory::data_type::bf16 &&
                               takes_bf16_weight_gradient(shape)),
          own_winograd_(context_->products == dnnl::memory::data_type::bf16 && takes_bf16_winograd(shape)),
          own_phases_(context_->products == dnnl::memory::data_type::bf16 && takes_bf16_phases(shape)),
          fp32_winograd_(
              context_->products == dnnl::memory::data_type::f32 && compiled_for_avx() &&
              takes_fp32_winograd(shape) &&
              ((winograd == Winograd::faster && outpaces_library_winograd) || !library_has_winograd())),
          turned_(shape, context_) {
        if (context_->products == dnnl::memory::data_type::bf16 && takes_amx_convolution(shape))
            amx_ = std::make_unique<ByMatrixUnit>(shape);
    }

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        const std::int64_t batch = x.shape[0];
        assert(bias.defined() == shape_.bias);
        if (batch == 0) return;
        if (amx_)
            return amx_->products.forward(batch, x.as<float>(), weight.as<float>(),
                                          shape_.bias ? bias.as<float>() : nullptr, y.as<float>(),
                                          context_->workspace);
        if (own_winograd_)
            return with_values(x, y, [&](const auto* from, auto* to) {
                bf16_winograd_forward(shape_, batch, from, weight.as<float>(),
                                      shape_.bias ? bias.as<float>() : nullptr, to, context_->workspace);
            });
        if (own_phases_)
            return with_values(x, y, [&](const auto* from, auto* to) {
                bf16_phases_forward(shape_, batch, from, weight.as<float>(),
                                    shape_.bias ? bias.as<float>() : nullptr, to, context_->workspace);
            });
        if (fp32_winograd_)
            return fp32_winograd_forward(shape_, batch, x.as<float>(), weight.as<float>(),
                                         shape_.bias ? bias.as<float>() : nullptr, y.as<float>(),
                                         context_->workspace);
        with_onednn_errors(name_, [&] {
            const BatchDeal deal = deal_of(Pass::forward, batch);
            OnednnProduct& plan =
                find(Pass::forward, batch / deal.parts, {type_of(x), type_of(y)}, deal.callers);
            if (!plan) return fallback_->forward(x, weight, bias, y);
            plan.execute(*context_, x.data, weight.data, y.data, bias.data, parts(deal, x, y));
        });
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        const std::int64_t batch = x.shape[0];
        assert(dbias.defined() == shape_.bias);
        const auto fall_back = [&] {
            fallback_->backward(x, weight, dy, dx, dweight, dbias, parameters_final);
        };
        if (batch == 0) return fall_back();
        if (amx_) return backward_by_amx(x, weight, dy, dx, dweight, dbias, parameters_final);
        if (fp32_winograd_)
            return backward_by_fp32_winograd(x, weight, dy, dx, dweight, dbias, parameters_final);
        const Types types{type_of(x), type_of(dy)};
        with_onednn_errors(name_, [&] {
            if (own_weight_gradient_ && (!dx.defined() || computes_data_of_pairs(batch, types)))
                return backward_in_pairs(x, weight, dy, dx, dweight, dbias, parameters_final);
            if (!dx.defined()) {
                OnednnProduct& alone = find(Pass::backward_weight, batch, types);
                if (!alone) return fall_back();
                return alone.execute(*context_, x.data, dy.data, dweight.data, dbias.data);
            }
            const BatchDeal deal = deal_of(Pass::backward_weight, batch);
            if (!has_backward_plans(batch, types, deal)) return fall_back();
            const Slices slices{x, dy, dx, batch, deal.parts};
            if (deal.callers > 1) {
                backward_at_once(slices, weight, dweight, dbias, deal.callers);
                if (parameters_final) (*parameters_final)();
                return;
            }
            for (std::int64_t i = 0; i < deal.parts; ++i)
                backward_in_turn(slices, i, weight, dweight, dbias, parameters_final);
        });
    }

    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        const std::int64_t batch = dy.shape[0];
        if (batch == 0) return;
        if (amx_) return backward_data_by_amx(weight, dy, dx);
        if (computes_data_itself()) return backward_data_by_ours(weight, dy, dx);
        with_onednn_errors(name_, [&] {
            const BatchDeal deal = deal_of(Pass::backward_data, batch);
            OnednnProduct& plan =
                find(Pass::backward_data, batch / deal.parts, {type_of(dx), type_of(dy)}, deal.callers);
            if (!plan) return fallback_->backward_data(weight, dy, dx);
            plan.execute(*context_, dy.data, weight.data, dx.data, nullptr, parts(deal, dy, dx));
        });
    }

  private:
    /// The images of backward in nearly equal slices.
    struct Slices {
        const TensorView &x, &dy, &dx;
        std::int64_t batch, count;

        std::int64_t begin(std::int64_t slice) const { return share_begin(batch, count, slice); }
        std::int64_t images(std::int64_t slice) const { return begin(slice + 1) - begin(slice); }
        TensorView part(const TensorView& all, std::int64_t slice) const {
            TensorView some = all;
            some.data +=
                all.bytes() / static_cast<std::size_t>(batch) * static_cast<std::size_t>(begin(slice));
            some.shape[0] = images(slice);
            return some;
        }
    };

    bool library_has_winograd() const {
        return with_onednn_errors(name_, [&] { return OnednnConvolutionPlans::has_winograd(*context_); });
    }
    /// Whether our own products in fp32 can have the width of the library's, which asks the processor.
    static constexpr bool compiled_for_avx() { return vector_bytes >= 32; }

    BatchDeal deal_of(Pass pass, std::int64_t batch) const {
        return tutti::deal(shape_, pass, context_->products, batch, omp_get_max_threads());
    }
    OnednnProduct& find(Pass pass, std::int64_t batch, const Types& types, int callers = 1) {
        return plans_.find(*context_, pass, batch, types, callers);
    }
    static OnednnProduct::Parts parts(const BatchDeal& deal, const TensorView& from, const TensorView& to) {
        const auto count = static_cast<std::size_t>(deal.parts);
        return {deal.parts, from.bytes() / count, to.bytes() / count};
    }

    /// How the data gradient of a slice of backward is computed: a caller computes its own whole.
    BatchDeal deal_of_slice(std::int64_t images, int callers) const {
        return callers > 1 ? BatchDeal{1, callers} : deal_of(Pass::backward_data, images);
    }
    /// Makes them, too: there are slices of two sizes at most.
    bool has_backward_plans(std::int64_t batch, const Types& types, const BatchDeal& deal) {
        for (const std::int64_t images : {batch / deal.parts, share_begin(batch, deal.parts, 1)}) {
            const BatchDeal data = deal_of_slice(images, deal.callers);
            if (!find(Pass::backward_weight, images, types, deal.callers) ||
                !find(Pass::backward_data, images / data.parts, types, data.callers))
                return false;
        }
        return true;
    }

    /// Parts for the turned convolution, which is computed by all threads part after part.
    std::int64_t turned_parts(std::int64_t batch) const {
        return tutti::deal(shape_, Pass::backward_data, context_->products, batch, 1).parts;
    }
    bool computes_data_of_pairs(std::int64_t batch, const Types& types) {
        if (computes_data_itself() || turned_.takes(batch / turned_parts(batch), types.x)) return true;
        const BatchDeal deal = deal_of(Pass::backward_data, batch);
        return static_cast<bool>(find(Pass::backward_data, batch / deal.parts, types, deal.callers));
    }

    /// backward with the weight gradient of bf16_weight_gradient.hpp, which rounds dy on its way, if it is
    /// fp32.
    void backward_in_pairs(const TensorView& x, const TensorView& weight, const TensorView& dy,
                           const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                           const ParametersFinal* parameters_final) {
        const std::int64_t batch = x.shape[0];
        const bool by_library = dx.defined() && !computes_data_itself();
        const Types types{type_of(x), type_of(dy)};
        const bool turned = by_library && turned_.takes(batch / turned_parts(batch), types.x);
        const BatchDeal deal = by_library ? deal_of(Pass::backward_data, batch) : BatchDeal();
        OnednnProduct* const data = by_library && !turned
                                        ? &find(Pass::backward_data, batch / deal.parts, types, deal.callers)
                                        : nullptr;
        const bool is_rounded = dy.dtype == DType::bf16;
        const bool takes_rounded = turned || (data && data->first_taken() == rounded_y(batch / deal.parts));
        GradientOfOutput also;
        if (shape_.bias) also.bias = dbias.as<float>();
        if (takes_rounded && !is_rounded)
            also.rounded =
                context_->shared.reserve_elements<std::uint16_t>(static_cast<std::size_t>(dy.count()));
        with_values(x, dy, [&](const auto* pixels, const auto* gradient) {
            if (own_phases_)
                bf16_phases_weight_gradient(shape_, batch, pixels, gradient, dweight.as<float>(), also.bias,
                                            context_->workspace);
            else if (takes_bf16_winograd_gradient(shape_, batch))
                bf16_winograd_weight_gradient(shape_, batch, pixels, gradient, dweight.as<float>(), also.bias,
                                              context_->workspace);
            else
                bf16_weight_gradient(shape_, batch, pixels, gradient, dweight.as<float>(), also, false,
                                     context_->workspace);
        });
        if (!dx.defined()) return;
        if (parameters_final) (*parameters_final)();
        if (computes_data_itself()) return backward_data_by_ours(weight, dy, dx);
        const auto* const rounded = is_rounded ? reinterpret_cast<std::uint16_t*>(dy.data) : also.rounded;
        if (turned) return turned_.execute(rounded, weight, dx, turned_parts(batch));
        const OnednnProduct::Source gradient =
            takes_rounded ? OnednnProduct::Source(rounded, true) : OnednnProduct::Source(dy.data);
        data->execute(*context_, gradient, weight.data, dx.data, nullptr, parts(deal, dy, dx));
    }
    void backward_by_amx(const TensorView& x, const TensorView& weight, const TensorView& dy,
                         const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                         const ParametersFinal* parameters_final) {
        amx_->weight_gradient.compute(x.shape[0], x.as<float>(), dy.as<float>(), dweight.as<float>(),
                                      shape_.bias ? dbias.as<float>() : nullptr, context_->workspace);
        if (!dx.defined()) return;
        if (parameters_final) (*parameters_final)();
        backward_data_by_amx(weight, dy, dx);
    }
    void backward_data_by_amx(const TensorView& weight, const TensorView& dy, const TensorView& dx) {
        amx_->products.backward_data(dx.shape[0], weight.as<float>(), dy.as<float>(), dx.as<float>(),
                                     context_->workspace);
    }
    bool computes_data_itself() const { return own_winograd_ || own_phases_ || fp32_winograd_; }
    void backward_data_by_ours(const TensorView& weight, const TensorView& dy, const TensorView& dx) {
        if (fp32_winograd_)
            return fp32_winograd_backward_data(shape_, dx.shape[0], weight.as<float>(), dy.as<float>(),
                                               dx.as<float>(), context_->workspace);
        with_values(dy, dx, [&](const auto* from, auto* to) {
            using Value = std::remove_cvref_t<decltype(*to)>;
            const auto compute =
                own_phases_ ? bf16_phases_backward_data<Value> : bf16_winograd_backward_data<Value>;
            compute(shape_, dx.shape[0], weight.as<float>(), from, to, context_->workspace);
        });
    }
    void backward_by_fp32_winograd(const TensorView& x, const TensorView& weight, const TensorView& dy,
                                   const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                                   const ParametersFinal* parameters_final) {
        fp32_winograd_weight_gradient(shape_, x.shape[0], x.as<float>(), dy.as<float>(), dweight.as<float>(),
                                      shape_.bias ? dbias.as<float>() : nullptr, context_->workspace);
        if (!dx.defined()) return;
        if (parameters_final) (*parameters_final)();
        backward_data_by_ours(weight, dy, dx);
    }
    dnnl::memory::desc rounded_y(std::int64_t batch) const {
        return {{batch, shape_.out, shape_.out_height(), shape_.out_width()},
                dnnl::memory::data_type::bf16,
                dnnl::memory::format_tag::nhwc};
    }

    /// backward of one slice, by all threads; its part of dweight and dbias is added to those before it.
    void backward_in_turn(const Slices& slices, std::int64_t slice, const TensorView& weight,
                          const TensorView& dweight, const TensorView& dbias,
                          const ParametersFinal* parameters_final) {
        const TensorView x = slices.part(slices.x, slice), dy = slices.part(slices.dy, slice),
                         dx = slices.part(slices.dx, slice);
        const BatchDeal deal = deal_of_slice(slices.images(slice), 1);  // of dx, which threads may share
        const Types types{type_of(x), type_of(dy)};
        OnednnProduct& for_weight = find(Pass::backward_weight, slices.images(slice), types);
        OnednnProduct& for_data =
            find(Pass::backward_data, slices.images(slice) / deal.parts, types, deal.callers);
        const auto gradient = for_weight.bring_shared(*context_, for_data, dy.data);
        if (slice > 0) {
            float* const part = reserve_sums(1);
            for_weight.execute(*context_, x.data, gradient, part,
                               shape_.bias ? part + weight_count() : nullptr);
            add_sums(part, 1, dweight, dbias);
        } else {
            for_weight.execute(*context_, x.data, gradient, dweight.data, dbias.data);
        }
        if (parameters_final && slice + 1 == slices.count) (*parameters_final)();
        for_data.execute(*context_, gradient, weight.data, dx.data, nullptr, parts(deal, dy, dx));
    }

    /// backward of all slices, each by one thread. Sums are added in the order of the slices.
    void backward_at_once(const Slices& slices, const TensorView& weight, const TensorView& dweight,
                          const TensorView& dbias, int callers) {
        const Types types{type_of(slices.x), type_of(slices.dy)};
        float* const sums = reserve_sums(slices.count - 1);
        const auto weight_taken =
            find(Pass::backward_data, slices.images(0), types, callers).bring_common(*context_, weight.data);
        std::size_t workspace_bytes = 0, shared_bytes = 0;
        for (std::int64_t slice = 0; slice < slices.count; ++slice) {
            const OnednnProduct &for_weight =
                                    find(Pass::backward_weight, slices.images(slice), types, callers),
                                &for_data = find(Pass::backward_data, slices.images(slice), types, callers);
            workspace_bytes =
                std::max({workspace_bytes, for_weight.workspace_bytes(), for_data.workspace_bytes()});
            shared_bytes = std::max(shared_bytes, for_weight.shared_bytes(for_data));
        }
        context_->ready_callers(callers, workspace_bytes, shared_bytes);
        for_parts(slices.count, callers, [&](int caller, std::int64_t slice) {
            OnednnContext& own = context_->of(caller);
            OnednnProduct& for_weight = find(Pass::backward_weight, slices.images(slice), types, callers);
            OnednnProduct& for_data = find(Pass::backward_data, slices.images(slice), types, callers);
            const auto gradient = for_weight.bring_shared(own, for_data, slices.part(slices.dy, slice).data);
            void *sum = dweight.data, *bias_sum = dbias.data;
            if (slice > 0) {
                float* const part = sums + (slice - 1) * sum_count();
                sum = part;
                bias_sum = shape_.bias ? part + weight_count() : nullptr;
            }
            for_weight.execute(own, slices.part(slices.x, slice).data, gradient, sum, bias_sum);
            for_data.execute(own, gradient, weight_taken, slices.part(slices.dx, slice).data);
        });
        add_sums(sums, slices.count - 1, dweight, dbias);
    }

    std::int64_t weight_count() const {
        return shape_.out * shape_.kernel_h * shape_.kernel_w * (shape_.in / shape_.groups);
    }
    /// dweight and dbias of a slice, in whole cache lines.
    std::int64_t sum_count() const { return (weight_count() + shape_.out + 15) / 16 * 16; }
    float* reserve_sums(std::int64_t slices) {
        return sums_.reserve_elements<float>(static_cast<std::size_t>(slices * sum_count()));
    }
    void add_sums(const float* sums, std::int64_t count, const TensorView& dweight,
                  const TensorView& dbias) const {
        const auto add = [&](const float* from, const TensorView& sum) {
            for_ranges(sum.count(), [=, this, to = sum.as<float>()](std::int64_t begin, std::int64_t end) {
                for (std::int64_t s = 0; s < count; ++s)
                    for (std::int64_t i = begin; i < end; ++i) to[i] += from[s * sum_count() + i];
            });
        };
        add(sums, dweight);
        if (shape_.bias) add(sums + weight_count(), dbias);
    }

    const Conv2dShape shape_;
    const std::string name_;
    const std::shared_ptr<OnednnContext> context_;
    const std::unique_ptr<Conv2dOp> fallback_;
    Workspace sums_;  // dweight and dbias of slices
    OnednnConvolutionPlans plans_;
    const bool own_weight_gradient_, own_winograd_, own_phases_, fp32_winograd_;
    OnednnTurnedConv2d turned_;
    std::unique_ptr<ByMatrixUnit> amx_;  // null: not taken
};

}  // namespace

std::unique_ptr<Conv2dOp> make_onednn_conv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context,
                                             std::unique_ptr<Conv2dOp> fallback, Winograd winograd) {
    check(shape);
    const bool ours =
        context->products == dnnl::memory::data_type::bf16 &&
        (takes_bf16_winograd(shape) || takes_bf16_phases(shape) || takes_bf16_weight_gradient(shape));
    std::unique_ptr<Conv2dOp> op =
        std::make_unique<OnednnConv2d>(shape, std::move(context), std::move(fallback), winograd);
    // Our own kernels have one type in and out, which keeps the program small; that they differ is rare.
    return ours ? in_fp32_where_types_differ(std::move(op)) : std::move(op);
}

}  // namespace tutti
