#include "onednn_product.hpp"

#include <algorithm>

namespace tutti {
namespace {

std::size_t whole_lines(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

std::vector<std::pair<int, dnnl::memory::desc>> arguments(const OnednnProduct::Operand& first,
                                                          const OnednnProduct::Operand& second,
                                                          const OnednnProduct::Operand& result,
                                                          const std::optional<OnednnProduct::Bias>& bias) {
    std::vector<std::pair<int, dnnl::memory::desc>> list = {
        {first.argument, first.taken}, {second.argument, second.taken}, {result.argument, result.taken}};
    if (bias) list.push_back(*bias);
    return list;
}

/// The operand as the primitive takes it: where it is, or a copy at `copy`.
const void* bring(OnednnReorder& reorder, const OnednnContext& context, const OnednnProduct::Source& source,
                  std::byte* copy, std::byte* library) {
    if (!reorder || source.taken) return source.data;
    reorder.execute(context, source.data, copy, library);
    return copy;
}

}  // namespace

OnednnReorder::OnednnReorder(const OnednnContext& context, const dnnl::memory::desc& from,
                             const dnnl::memory::desc& to) {
    if (from == to) return;
    const dnnl::reorder::primitive_desc description(context.engine, from, context.engine, to,
                                                    context.attributes());
    reorder_ = OnednnPrimitive(context, description, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    copy_bytes_ = whole_lines(std::max(from.get_size(), to.get_size()));
}

void OnednnReorder::execute(const OnednnContext& context, const void* from, void* to, std::byte* scratch) {
    reorder_.execute(context, {from, to}, scratch);
}

OnednnProduct::OnednnProduct(const OnednnContext& context, const dnnl::primitive_desc_base& description,
                             const Operand& first, const Operand& second, const Operand& result,
                             const std::optional<Bias>& bias)
    : product_(context, description, arguments(first, second, result, bias)),
      first_(context, first.given, first.taken),
      second_(context, second.given, second.taken),
      result_(context, result.taken, result.given),
      first_taken_(first.taken),
      second_taken_(second.taken),
      library_bytes_(std::max({product_.scratch_bytes(), first_.scratch_bytes(), second_.scratch_bytes(),
                               result_.scratch_bytes()})) {}

OnednnProduct::Source OnednnProduct::bring_shared(OnednnContext& context, const OnednnProduct& other,
                                                  const void* given) {
    if (!second_ || second_taken_ != other.first_taken_) return given;
    std::byte* const copy = context.shared.reserve(second_.copy_bytes() + second_.scratch_bytes());
    second_.execute(context, given, copy, copy + second_.copy_bytes());
    return {copy, true};
}

void OnednnProduct::execute(OnednnContext& context, const Source& first, const Source& second, void* result,
                            const void* bias) {
    std::byte* const first_copy = context.workspace.reserve(first_.copy_bytes() + second_.copy_bytes() +
                                                            result_.copy_bytes() + library_bytes_);
    std::byte* const second_copy = first_copy + first_.copy_bytes();
    std::byte* const result_copy = second_copy + second_.copy_bytes();
    std::byte* const library = result_copy + result_.copy_bytes();

    const void* const taken_first = bring(first_, context, first, first_copy, library);
    const void* const taken_second = bring(second_, context, second, second_copy, library);
    void* const left = result_ ? result_copy : result;
    if (bias)
        product_.execute(context, {taken_first, taken_second, left, bias}, library);
    else
        product_.execute(context, {taken_first, taken_second, left}, library);
    if (result_) result_.execute(context, left, result, library);
}

}  // namespace tutti
