#include "onednn_ops.hpp"

#include <fmt/format.h>

#include "eigen_ops.hpp"
#include "onednn_operators.hpp"

namespace tutti {
namespace {

class OnednnOps final : public EigenOps<float> {
  public:
    std::unique_ptr<LinearOp> linear(const LinearShape& shape) override {
        return make_onednn_linear(shape, context_);
    }
    std::unique_ptr<Conv2dOp> conv2d(const Conv2dShape& shape) override {
        return make_onednn_conv2d(shape, context_, make_eigen_conv2d<float>(shape, workspace()));
    }

  private:
    std::shared_ptr<OnednnContext> context_ =
        with_onednn_errors("anything", [] { return std::make_shared<OnednnContext>(); });
};

}  // namespace

std::unique_ptr<Ops> make_onednn_ops() {
    return std::make_unique<OnednnOps>();
}

std::string fp32_library() {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace tutti
