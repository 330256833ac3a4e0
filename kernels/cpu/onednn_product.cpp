#include "onednn_product.hpp"

#include <algorithm>
#include <optional>

#include "parallel.hpp"

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

/// Whether a tensor's memory in one layout is, part by part of its first dimension, memory in the other.
bool same_but_for_batch(const dnnl::memory::desc& a, const dnnl::memory::desc& b) {
    const dnnl_memory_desc_t &x = a.data, &y = b.data;
    if (x.ndims != y.ndims || x.data_type != y.data_type || x.format_kind != dnnl_blocked ||
        y.format_kind != dnnl_blocked)
        return false;
    const dnnl_blocking_desc_t &of_x = x.format_desc.blocking, &of_y = y.format_desc.blocking;
    if (of_x.inner_nblks != of_y.inner_nblks) return false;
    // With the batch outermost and in no block.
    for (int d = 0; d < x.ndims; ++d)
        if (of_x.strides[d] != of_y.strides[d] || of_x.strides[d] > of_x.strides[0] ||
            (d > 0 && (x.dims[d] != y.dims[d] || x.padded_dims[d] != y.padded_dims[d])))
            return false;
    for (int k = 0; k < of_x.inner_nblks; ++k)
        if (of_x.inner_blks[k] != of_y.inner_blks[k] || of_x.inner_idxs[k] != of_y.inner_idxs[k] ||
            of_x.inner_idxs[k] == 0)
            return false;
    return x.dims[0] == x.padded_dims[0] && y.dims[0] == y.padded_dims[0];
}

}  // namespace

OnednnReorder::OnednnReorder(const OnednnContext& context, const dnnl::memory::desc& from,
                             const dnnl::memory::desc& to, int callers) {
    if (from == to) return;
    std::optional<OneThread> alone;
    if (callers > 1) alone.emplace();
    const dnnl::reorder::primitive_desc description(context.engine, from, context.engine, to,
                                                    context.attributes());
    reorder_ = OnednnPrimitive(context, description, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, callers);
    copy_bytes_ = whole_lines(std::max(from.get_size(), to.get_size()));
}

void OnednnReorder::execute(const OnednnContext& context, const void* from, void* to, std::byte* scratch) {
    reorder_.execute(context, {from, to}, scratch);
}

OnednnProduct::OnednnProduct(const OnednnContext& context, const dnnl::primitive_desc_base& description,
                             const Operand& first, const Operand& second, const Operand& result,
                             const std::optional<Bias>& bias, int callers)
    : callers_(callers),
      product_(context, description, arguments(first, second, result, bias), callers),
      first_(context, first.given, first.taken, callers),
      second_(context, second.given, second.taken, second.common ? 1 : callers),
      result_(context, result.taken, result.given, callers),
      first_taken_(first.taken),
      second_taken_(second.taken),
      library_bytes_(std::max({product_.scratch_bytes(), first_.scratch_bytes(), second_.scratch_bytes(),
                               result_.scratch_bytes()})) {}

std::size_t OnednnProduct::shared_bytes(const OnednnProduct& other) const {
    if (!second_ || !same_but_for_batch(second_taken_, other.first_taken_)) return 0;
    return second_.copy_bytes() + second_.scratch_bytes();
}

OnednnProduct::Source OnednnProduct::bring_shared(OnednnContext& context, const OnednnProduct& other,
                                                  const void* given) {
    const std::size_t bytes = shared_bytes(other);
    if (bytes == 0) return given;
    std::byte* const copy = context.shared.reserve(bytes);
    second_.execute(context, given, copy, copy + second_.copy_bytes());
    return {copy, true};
}

OnednnProduct::Source OnednnProduct::bring_common(OnednnContext& context, const void* given) {
    if (!second_) return given;
    std::byte* const copy = context.common.reserve(second_.copy_bytes() + second_.scratch_bytes());
    second_.execute(context, given, copy, copy + second_.copy_bytes());
    return {copy, true};
}

void OnednnProduct::execute(OnednnContext& context, const Source& first, const Source& second, void* result,
                            const void* bias, const Parts& parts) {
    const std::size_t first_bytes = first.taken ? first_taken_.get_size() : parts.first_bytes;
    const auto part = [&](OnednnContext& of_caller, std::int64_t i, const Source& taken, std::byte* scratch) {
        const auto index = static_cast<std::size_t>(i);
        execute_part(of_caller,
                     {static_cast<const std::byte*>(first.data) + index * first_bytes, first.taken}, taken,
                     static_cast<std::byte*>(result) + index * parts.result_bytes, bias, scratch);
    };
    if (callers_ > 1 && parts.count > 1) {
        const Source taken = second.taken ? second : bring_common(context, second.data);
        context.ready_callers(callers_, part_bytes());
        return for_parts(parts.count, callers_, [&](int caller, std::int64_t i) {
            OnednnContext& own = context.of(caller);
            part(own, i, taken, own.workspace.reserve(part_bytes()));
        });
    }
    std::byte* const copy = context.workspace.reserve(workspace_bytes());
    std::byte* const scratch = copy + second_.copy_bytes();
    const void* const taken_second = bring(second_, context, second, copy, scratch);
    for (std::int64_t i = 0; i < parts.count; ++i) part(context, i, {taken_second, true}, scratch);
}

void OnednnProduct::execute_part(OnednnContext& context, const Source& first, const Source& second,
                                 void* result, const void* bias, std::byte* scratch) {
    std::byte* const result_copy = scratch + first_.copy_bytes();
    std::byte* const library = result_copy + result_.copy_bytes();
    const void* const taken_first = bring(first_, context, first, scratch, library);
    void* const left = result_ ? result_copy : result;
    if (bias)
        product_.execute(context, {taken_first, second.data, left, bias}, library);
    else
        product_.execute(context, {taken_first, second.data, left}, library);
    if (result_) result_.execute(context, left, result, library);
}

}  // namespace tutti
