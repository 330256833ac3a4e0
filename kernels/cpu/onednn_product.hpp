#pragma once
// A product whose operands oneDNN may take in other layouts or types than the arenas hold them in.

#include <optional>

#include "onednn_primitive.hpp"

namespace tutti {

/// Brings one tensor from one layout and type to another; rounds to the nearest, ties to even. Does nothing
/// where both are the same.
class OnednnReorder {
  public:
    OnednnReorder() = default;
    OnednnReorder(const OnednnContext& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                  int callers = 1);

    explicit operator bool() const { return static_cast<bool>(reorder_); }
    /// Memory for the tensor on oneDNN's side, a multiple of 64; 0 where there is nothing to do.
    std::size_t copy_bytes() const { return copy_bytes_; }
    std::size_t scratch_bytes() const { return reorder_.scratch_bytes(); }
    void execute(const OnednnContext& context, const void* from, void* to, std::byte* scratch);

  private:
    OnednnPrimitive reorder_;
    std::size_t copy_bytes_ = 0;
};

/// result = first × second (+ bias), or for gradients (and the bias's gradient), for one batch size.
class OnednnProduct {
  public:
    /// `argument`: DNNL_ARG_…; `given`: as the arena holds it; `taken`: as the primitive takes or leaves it.
    /// `common`: several callers take the same, which all threads bring together.
    struct Operand {
        int argument;
        dnnl::memory::desc given, taken;
        bool common = false;
    };
    using Bias = std::pair<int, dnnl::memory::desc>;

    /// Computes nothing; false in conditions.
    OnednnProduct() = default;
    /// With several `callers`, each of them computes its calls on one thread, and the description must have
    /// been made for one (OneThread).
    OnednnProduct(const OnednnContext& context, const dnnl::primitive_desc_base& description,
                  const Operand& first, const Operand& second, const Operand& result,
                  const std::optional<Bias>& bias = {}, int callers = 1);

    explicit operator bool() const { return static_cast<bool>(product_); }
    /// How the primitive takes the first operand.
    const dnnl::memory::desc& first_taken() const { return first_taken_; }
    /// An operand where it was given, or as the product takes it.
    struct Source {
        Source(const void* given) : data(given) {}
        Source(const void* at, bool as_taken) : data(at), taken(as_taken) {}
        const void* data;
        bool taken = false;
    };
    /// Products one after the other with the same second operand and bias, each with its part of the first
    /// operand (as given) and of the result, so many bytes after the part before it. Between them progress is
    /// offered. With several callers they compute the parts among them.
    struct Parts {
        std::int64_t count = 1;
        std::size_t first_bytes = 0, result_bytes = 0;
    };
    void execute(OnednnContext& context, const Source& first, const Source& second, void* result,
                 const void* bias, const Parts& parts);
    /// `bias`: where the product was made with one. Reserves the context's workspace.
    void execute(OnednnContext& context, const Source& first, const Source& second, void* result,
                 const void* bias = nullptr) {
        execute(context, first, second, result, bias, Parts());
    }

    /// For products of one context that have an operand in common, this one's second and the other's first
    /// (whole or in parts of the batch): brings it once for both, into the context's shared workspace, where
    /// both take it alike. The result is for both.
    Source bring_shared(OnednnContext& context, const OnednnProduct& other, const void* given);

    /// What a call takes of a caller's workspace, and bring_shared for this and `other` of its shared one.
    std::size_t workspace_bytes() const { return part_bytes() + second_.copy_bytes(); }
    std::size_t shared_bytes(const OnednnProduct& other) const;

    /// The second operand, where it is common, as the product takes it, until the context's next; for calls
    /// of all callers.
    Source bring_common(OnednnContext& context, const void* given);

  private:
    void execute_part(OnednnContext& context, const Source& first, const Source& second, void* result,
                      const void* bias, std::byte* scratch);
    std::size_t part_bytes() const { return first_.copy_bytes() + result_.copy_bytes() + library_bytes_; }

    int callers_ = 1;
    OnednnPrimitive product_;
    OnednnReorder first_, second_, result_;
    dnnl::memory::desc first_taken_, second_taken_;
    std::size_t library_bytes_ = 0;
};

}  // namespace tutti
