#include "onednn_turned_conv2d.hpp"

#include <string_view>

#include "bf16_pairs.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

}  // namespace

OnednnTurnedConv2d::OnednnTurnedConv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context)
    : shape_(shape), context_(std::move(context)) {}

bool OnednnTurnedConv2d::takes(std::int64_t batch, Type dx) {
    return static_cast<bool>(plan(batch, dx).product);
}

void OnednnTurnedConv2d::execute(const std::uint16_t* dy, const TensorView& weight, const TensorView& dx,
                                 std::int64_t parts) {
    const std::int64_t batch = dx.shape[0];
    Plan& plan = this->plan(batch / parts, type_of(dx));
    auto* const turned =
        context_->common.reserve_elements<Bf16Pair>(static_cast<std::size_t>(weight.count() / 2));
    turn(weight.as<float>(), plan.layout, turned);
    const std::int64_t dy_count = batch * shape_.out_height() * shape_.out_width() * shape_.out;
    plan.product.execute(*context_, dy, {turned, true}, dx.data, nullptr,
                         {parts, static_cast<std::size_t>(dy_count / parts) * sizeof(*dy),
                          dx.bytes() / static_cast<std::size_t>(parts)});
}

OnednnTurnedConv2d::Plan& OnednnTurnedConv2d::plan(std::int64_t batch, Type dx) {
    const auto found = plans_.find({batch, dx});
    if (found != plans_.end()) return found->second;
    Plan plan;
    const bool fits = context_->products == Type::bf16 && has_bf16_tiles() && shape_.groups == 1 &&
                      shape_.stride_h == 1 && shape_.stride_w == 1 && shape_.padding_h < shape_.kernel_h &&
                      shape_.padding_w < shape_.kernel_w && shape_.out % 2 == 0;
    // As forward: rows of so few pixels are slow in NHWC.
    const bool small = shape_.height * shape_.width <= 16 && shape_.in % 16 == 0 && shape_.out % 16 == 0;
    if (fits && small) plan = make_plan(batch, dx, Tag::nChw16c);
    if (fits && !plan.product) plan = make_plan(batch, dx, Tag::nhwc);
    return plans_.emplace(std::pair(batch, dx), std::move(plan)).first->second;
}

OnednnTurnedConv2d::Plan OnednnTurnedConv2d::make_plan(std::int64_t batch, Type of_dx,
                                                       Tag activations) const {
    const memory::dims dy{batch, shape_.out, shape_.out_height(), shape_.out_width()};
    const memory::dims dx{batch, shape_.in, shape_.height, shape_.width};
    const memory::dims weights{shape_.in, shape_.out, shape_.kernel_h, shape_.kernel_w};
    const memory::dims padding{shape_.kernel_h - 1 - shape_.padding_h,
                               shape_.kernel_w - 1 - shape_.padding_w};
    const dnnl::convolution_forward::primitive_desc description({dnnl::prop_kind::forward_inference,
                                                                 dnnl::algorithm::convolution_direct,
                                                                 {dy, Type::bf16, activations},
                                                                 {weights, Type::bf16, Tag::any},
                                                                 {dx, of_dx, activations},
                                                                 {1, 1},
                                                                 padding,
                                                                 padding},
                                                                context_->attributes(), context_->engine,
                                                                /*allow_empty=*/true);
    Plan plan;
    if (!description || std::string_view(description.impl_info_str()).starts_with("ref") ||
        !find_layout(description.weights_desc(), plan.layout))
        return {};
    plan.product = {*context_,
                    description,
                    {DNNL_ARG_SRC, {dy, Type::bf16, Tag::nhwc}, description.src_desc()},
                    {DNNL_ARG_WEIGHTS, description.weights_desc(), description.weights_desc()},
                    {DNNL_ARG_DST, {dx, of_dx, Tag::nhwc}, description.dst_desc()}};
    return plan;
}

bool OnednnTurnedConv2d::find_layout(const memory::desc& weights, Layout& layout) const {
    const std::int64_t all = shape_.out / 2;
    struct Known {
        Tag tag;
        Layout layout;
    };
    for (const Known& known : {Known{Tag::AcdB16a2b, {16, all}}, Known{Tag::AcdB32a2b, {32, all}},
                               Known{Tag::AcdB48a2b, {48, all}}, Known{Tag::AcdB64a2b, {64, all}},
                               Known{Tag::ABcd8b16a2b, {16, 8}}})
        if (weights == memory::desc(weights.dims(), Type::bf16, known.tag) &&
            shape_.in % known.layout.width == 0 && all % known.layout.height == 0) {
            layout = known.layout;
            return true;
        }
    return false;
}

void OnednnTurnedConv2d::turn(const float* weight, const Layout& layout, Bf16Pair* to) const {
    const std::int64_t windows = shape_.kernel_h * shape_.kernel_w, in = shape_.in;
    const std::int64_t pairs = shape_.out / 2;
    const auto of_pairs = [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t pair = begin; pair < end; ++pair)
            for (std::int64_t window = 0; window < windows; ++window) {
                const float* const first = weight + (2 * pair * windows + window) * in;
                const std::int64_t block = pair / layout.height, row = pair % layout.height;
                for (std::int64_t i = 0; i < in; i += layout.width) {
                    const std::int64_t blocks = i / layout.width * (pairs / layout.height) + block;
                    make_bf16_pairs(first + i, first + windows * in + i, layout.width,
                                    to + ((blocks * windows + windows - 1 - window) * layout.height + row) *
                                             layout.width);
                }
            }
    };
    for_ranges(pairs, of_pairs, 2 * windows * in);
}

}  // namespace tutti
