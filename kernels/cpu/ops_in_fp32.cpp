#include "ops_in_fp32.hpp"

#include "host_memory.hpp"
#include "parallel.hpp"
#include "tutti/base/bf16.hpp"

namespace tutti {
namespace {

/// A tensor in fp32: itself, or a copy of what lies in bf16.
class InFp32 {
  public:
    /// With its values.
    const TensorView& of(const TensorView& values) {
        room_for(values);
        if (is_short(values))
            for_ranges(values.count(), [from = bits_of(values), to = view_.as<float>()](std::int64_t begin,
                                                                                        std::int64_t end) {
                widen_bf16({from + begin, static_cast<std::size_t>(end - begin)}, to + begin);
            });
        return view_;
    }
    /// Contents arbitrary; then round_to.
    const TensorView& room_for(const TensorView& result) {
        view_ = result;
        if (!is_short(result)) return view_;
        view_.dtype = DType::f32;
        view_.data = memory_.reserve(view_.bytes());
        return view_;
    }
    void round_to(const TensorView& result) const {
        if (!is_short(result)) return;
        for_ranges(result.count(),
                   [from = view_.as<float>(), to = bits_of(result)](std::int64_t begin, std::int64_t end) {
                       round_to_bf16({from + begin, static_cast<std::size_t>(end - begin)}, to + begin);
                   });
    }

  private:
    static bool is_short(const TensorView& values) { return values.defined() && values.dtype == DType::bf16; }
    static std::uint16_t* bits_of(const TensorView& values) {
        return reinterpret_cast<std::uint16_t*>(values.data);
    }

    Workspace memory_;
    TensorView view_;
};

class Conv2dInFp32 final : public Conv2dOp {
  public:
    Conv2dInFp32(std::unique_ptr<Conv2dOp> op, bool takes_one_type)
        : op_(std::move(op)), takes_one_type_(takes_one_type) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        if (takes(x, y)) return op_->forward(x, weight, bias, y);
        op_->forward(x_.of(x), weight, bias, dy_.room_for(y));
        dy_.round_to(y);
    }
    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        if (takes(x, dy)) return op_->backward(x, weight, dy, dx, dweight, dbias, parameters_final);
        op_->backward(x_.of(x), weight, dy_.of(dy), dx_.room_for(dx), dweight, dbias, parameters_final);
        dx_.round_to(dx);
    }
    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        if (takes(dx, dy)) return op_->backward_data(weight, dy, dx);
        op_->backward_data(weight, dy_.of(dy), dx_.room_for(dx));
        dx_.round_to(dx);
    }

  private:
    bool takes(const TensorView& x, const TensorView& y) const {
        return takes_one_type_ && x.dtype == y.dtype;
    }

    const std::unique_ptr<Conv2dOp> op_;
    const bool takes_one_type_;
    InFp32 x_, dy_, dx_;
};

class LinearInFp32 final : public LinearOp {
  public:
    explicit LinearInFp32(std::unique_ptr<LinearOp> op) : op_(std::move(op)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        op_->forward(x_.of(x), weight, bias, y);
    }
    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        op_->backward(x_.of(x), weight, dy, dx_.room_for(dx), dweight, dbias, parameters_final);
        dx_.round_to(dx);
    }

  private:
    const std::unique_ptr<LinearOp> op_;
    InFp32 x_, dx_;
};

}  // namespace

std::unique_ptr<Conv2dOp> in_fp32(std::unique_ptr<Conv2dOp> op) {
    return std::make_unique<Conv2dInFp32>(std::move(op), false);
}
std::unique_ptr<Conv2dOp> in_fp32_where_types_differ(std::unique_ptr<Conv2dOp> op) {
    return std::make_unique<Conv2dInFp32>(std::move(op), true);
}
std::unique_ptr<LinearOp> in_fp32(std::unique_ptr<LinearOp> op) {
    return std::make_unique<LinearInFp32>(std::move(op));
}

}  // namespace tutti
