#pragma once
// What the operators on oneDNN share: engine, stream, scratch, and primitives bound to their arguments once
// (inside a call, oneDNN itself still takes a few small blocks from the heap).

#include <dnnl_debug.h>
#include <dnnl.hpp>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host_memory.hpp"
#include "tutti/base/error.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// Of values between layers: fp32, or bf16.
inline dnnl::memory::data_type type_of(const TensorView& values) {
    return values.dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// One per Ops, shared by its operators.
struct OnednnContext {
    OnednnContext() = default;
    /// Another caller's. Primitives and streams must have one engine.
    OnednnContext(const OnednnContext& first, int number)
        : products(first.products), engine(first.engine), caller(number) {}

    /// What the inputs of products are rounded to; sums and results are fp32.
    dnnl::memory::data_type products = dnnl::memory::data_type::f32;
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    Workspace workspace;
    /// An operand that several products take, from the first of them to the last.
    Workspace shared;
    /// An operand that all callers, or several calls, take.
    Workspace common;
    /// The number of the thread that calls with this context, where several call at once.
    int caller = 0;

    /// The context of the caller of that number: this one for 0; after ready_callers.
    OnednnContext& of(int number) {
        return number == 0 ? *this : *others_[static_cast<std::size_t>(number - 1)];
    }
    /// Makes the contexts of so many, each with so many bytes of workspace and of `shared`, which its thread
    /// is the first to write to. Not left to the first that calls with them: which caller takes which part is
    /// open, and so would be how much memory a step takes.
    void ready_callers(int callers, std::size_t workspace_bytes, std::size_t shared_bytes = 0);

    /// Scratch comes from `workspace`, and fp32 means fp32, whatever the environment says.
    dnnl::primitive_attr attributes() const;

  private:
    std::vector<std::unique_ptr<OnednnContext>> others_;
};

/// A primitive and its arguments. Only the addresses change from call to call.
class OnednnPrimitive {
  public:
    /// Does nothing; false in conditions.
    OnednnPrimitive() = default;
    /// `arguments`: the DNNL_ARG_… index and layout of each, in the order in which execute gets the
    /// addresses. `callers`: how many threads may execute it at once, each with its own context.
    OnednnPrimitive(const OnednnContext& context, const dnnl::primitive_desc_base& description,
                    const std::vector<std::pair<int, dnnl::memory::desc>>& arguments, int callers = 1);

    explicit operator bool() const { return static_cast<bool>(primitive_); }
    std::size_t scratch_bytes() const { return scratch_bytes_; }

    /// `scratch`: scratch_bytes() bytes, 64-byte aligned. Returns when all is computed.
    void execute(const OnednnContext& context, std::initializer_list<const void*> addresses, void* scratch);

  private:
    /// Of one caller.
    struct Arguments {
        std::vector<dnnl::memory> memories;
        std::vector<dnnl_exec_arg_t> list;
    };

    dnnl::primitive primitive_;
    std::vector<Arguments> arguments_;
    std::size_t scratch_bytes_ = 0;
};

/// Calls work(); an error of oneDNN becomes RunError that names the operator and the decoded status.
template <class Work>
auto with_onednn_errors(const std::string& what, const Work& work) -> decltype(work()) {
    try {
        return work();
    } catch (const dnnl::error& error) {
        throw RunError("oneDNN cannot compute " + what + ": " + dnnl_status2str(error.status) + " (" +
                           error.what() + ")",
                       "report this shape, or build with -Donednn=disabled");
    }
}

}  // namespace tutti
