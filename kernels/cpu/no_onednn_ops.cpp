#include "matrix_product.hpp"
#include "onednn_ops.hpp"

namespace tutti {

std::unique_ptr<Ops> make_onednn_ops() {
    return nullptr;
}

std::string fp32_library() {
    return eigen_version() + " (built without oneDNN)";
}

}  // namespace tutti
