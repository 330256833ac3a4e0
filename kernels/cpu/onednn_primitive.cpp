#include "onednn_primitive.hpp"

#include "host_progress.hpp"

namespace tutti {

dnnl::primitive_attr OnednnContext::attributes() const {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
    return attributes;
}

OnednnPrimitive::OnednnPrimitive(const OnednnContext& context, const dnnl::primitive_desc_base& description,
                                 const std::vector<std::pair<int, dnnl::memory::desc>>& arguments)
    : primitive_(description.get()), scratch_bytes_(description.scratchpad_desc().get_size()) {
    const auto bind = [&](int index, const dnnl::memory::desc& layout) {
        memories_.push_back(dnnl::memory(layout, context.engine, DNNL_MEMORY_NONE));
        arguments_.push_back({index, memories_.back().get()});
    };
    memories_.reserve(arguments.size() + 1);
    for (const auto& [index, layout] : arguments) bind(index, layout);
    if (scratch_bytes_ > 0) bind(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
}

void OnednnPrimitive::execute(const OnednnContext& context, std::initializer_list<const void*> addresses,
                              void* scratch) {
    auto memory = memories_.begin();
    // oneDNN takes inputs and outputs alike as void*; it writes only to outputs.
    for (const void* address : addresses) (memory++)->set_data_handle(const_cast<void*>(address));
    if (scratch_bytes_ > 0) (memory++)->set_data_handle(scratch);
    // The C function takes a ready-made array, where the C++ one builds a map and a vector in each call.
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), context.stream.get(),
                                                   static_cast<int>(arguments_.size()), arguments_.data()),
                            "could not execute a primitive");
    dnnl::error::wrap_c_api(dnnl_stream_wait(context.stream.get()), "could not wait on a stream");
    offer_progress();
}

}  // namespace tutti
