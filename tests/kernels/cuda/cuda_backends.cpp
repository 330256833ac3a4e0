// The operators of the CUDA device, on the fake GPU, as an implementation of the ops contract.

#include "../backend.hpp"
#include "cuda_ops.hpp"

namespace tutti::test {
namespace {

std::unique_ptr<Ops> make_cuda() {
    return std::make_unique<cuda::CudaOps>(std::make_shared<cuda::CudaContext>(), cuda::ProductType::fp32);
}

}  // namespace

std::vector<Backend> backends() {
    return {{"cuda_f32", DType::f32, make_cuda, 1}};
}

/// Finite differences need f64, which is the CPU's.
std::vector<Backend> reference_backends() {
    return {};
}

}  // namespace tutti::test
