#include "backend.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

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
            result.push_back(
                {fmt::format("onednn_f32_threads{}", threads), DType::f32, make_onednn_ops, threads});
    }
    return result;
}

std::vector<Backend> reference_backends() {
    std::vector<Backend> result = backends();
    std::erase_if(result, [](const Backend& backend) { return backend.dtype != DType::f64; });
    return result;
}

KernelTest::KernelTest() : threads_before_(omp_get_max_threads()) {
    omp_set_num_threads(GetParam().threads);
    ops_ = GetParam().make();
}
KernelTest::~KernelTest() {
    omp_set_num_threads(threads_before_);
}

std::string backend_name(const testing::TestParamInfo<Backend>& info) {
    return info.param.name;
}

void expect_equal(const TestTensor& tensor, const std::vector<double>& expected) {
    ASSERT_EQ(tensor.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i]))
            EXPECT_TRUE(std::isnan(tensor.get(i))) << "element " << i << " is " << tensor.get(i);
        else
            EXPECT_EQ(tensor.get(i), expected[i]) << "element " << i;
    }
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected, double tolerance) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
            << "element " << i;
}

}  // namespace tutti::test
