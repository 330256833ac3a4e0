#include "onednn_primitive.hpp"

#include <optional>

#include "host_progress.hpp"
#include "parallel.hpp"
#include "thread_team.hpp"

namespace tutti {

dnnl::primitive_attr OnednnContext::attributes() const {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
    return attributes;
}

void OnednnContext::ready_callers(int callers, std::size_t workspace_bytes, std::size_t shared_bytes) {
    for (int number = static_cast<int>(others_.size()) + 1; number < callers; ++number)
        others_.push_back(std::make_unique<OnednnContext>(*this, number));
    bool ready = true;
    for (int number = 0; number < callers; ++number)
        ready &= of(number).workspace.holds(workspace_bytes) && of(number).shared.holds(shared_bytes);
    if (ready) return;
    std::exception_ptr failure;
    run_together(callers, [&](int number, int) {
        OnednnContext& own = of(number);
        try {
            own.workspace.reserve(workspace_bytes);
            own.shared.reserve(shared_bytes);
        } catch (...) {
#pragma omp critical(tutti_ready_callers)
            if (!failure) failure = std::current_exception();
        }
    });
    if (failure) std::rethrow_exception(failure);
}

namespace {

/// oneDNN's cache of primitives tells them apart by the number of threads at the moment that they are made,
/// not by that of their description: one for callers with a thread each must not be another's.
dnnl::primitive made(const dnnl::primitive_desc_base& description, int callers) {
    std::optional<OneThread> alone;
    if (callers > 1) alone.emplace();
    return dnnl::primitive(description.get());
}

}  // namespace

OnednnPrimitive::OnednnPrimitive(const OnednnContext& context, const dnnl::primitive_desc_base& description,
                                 const std::vector<std::pair<int, dnnl::memory::desc>>& arguments,
                                 int callers)
    : primitive_(made(description, callers)),
      arguments_(static_cast<std::size_t>(callers)),
      scratch_bytes_(description.scratchpad_desc().get_size()) {
    for (Arguments& of_caller : arguments_) {
        const auto bind = [&](int index, const dnnl::memory::desc& layout) {
            of_caller.memories.push_back(dnnl::memory(layout, context.engine, DNNL_MEMORY_NONE));
            of_caller.list.push_back({index, of_caller.memories.back().get()});
        };
        of_caller.memories.reserve(arguments.size() + 1);
        for (const auto& [index, layout] : arguments) bind(index, layout);
        if (scratch_bytes_ > 0) bind(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
    }
}

void OnednnPrimitive::execute(const OnednnContext& context, std::initializer_list<const void*> addresses,
                              void* scratch) {
    ThreadTeam::note_library_region();
    Arguments& arguments = arguments_[static_cast<std::size_t>(context.caller)];
    auto memory = arguments.memories.begin();
    // oneDNN takes inputs and outputs alike as void*; it writes only to outputs.
    for (const void* address : addresses) (memory++)->set_data_handle(const_cast<void*>(address));
    if (scratch_bytes_ > 0) (memory++)->set_data_handle(scratch);
    // The C function takes a ready-made array, where the C++ one builds a map and a vector in each call.
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), context.stream.get(),
                               static_cast<int>(arguments.list.size()), arguments.list.data()),
        "could not execute a primitive");
    dnnl::error::wrap_c_api(dnnl_stream_wait(context.stream.get()), "could not wait on a stream");
    offer_progress();
}

}  // namespace tutti
