#include "matrix_product.hpp"
#include "onednn_ops.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

std::unique_ptr<Ops> make_onednn_ops(Winograd /*winograd*/) {
    return nullptr;
}

std::unique_ptr<Ops> make_onednn_bf16_ops() {
    throw UsageError("train.precision bf16 needs oneDNN",
                     "set train.precision: fp32, or build with -Donednn=enabled");
}

std::string fp32_library() {
    return eigen_version() + " (built without oneDNN)";
}

}  // namespace tutti
