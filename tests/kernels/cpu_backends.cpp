#include <fmt/format.h>

#include "backend.hpp"
#include "eigen_ops.hpp"
#include "onednn_ops.hpp"

namespace tutti::test {
namespace {

template <class T>
std::unique_ptr<Ops> make_eigen() {
    return std::make_unique<EigenOps<T>>();
}

}  // namespace

std::vector<Backend> backends() {
    std::vector<Backend> result;
    for (const int threads : {1, 2}) {
        result.push_back(
            {fmt::format("eigen_f32_threads{}", threads), DType::f32, make_eigen<float>, threads});
        result.push_back(
            {fmt::format("eigen_f64_threads{}", threads), DType::f64, make_eigen<double>, threads});
        if (make_onednn_ops())
            result.push_back({fmt::format("onednn_f32_threads{}", threads), DType::f32,
                              [] { return make_onednn_ops(); }, threads});
    }
    return result;
}

std::vector<Backend> reference_backends() {
    std::vector<Backend> result = backends();
    std::erase_if(result, [](const Backend& backend) { return backend.dtype != DType::f64; });
    return result;
}

}  // namespace tutti::test
