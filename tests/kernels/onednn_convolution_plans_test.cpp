#include "onednn_convolution_plans.hpp"

#include <gtest/gtest.h>

#include "operand_rows.hpp"

namespace tutti::test {
namespace {

/// Whether oneDNN takes its kernels for AVX-512 here.
bool computes_with_avx512() {
    constexpr auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & avx512) == avx512;
}

TEST(OnednnConvolutionPlans, has_the_library_s_winograd_where_it_computes_with_avx512) {
    if (!computes_with_avx512()) GTEST_SKIP() << "oneDNN does not compute with AVX-512 here";
    EXPECT_TRUE(OnednnConvolutionPlans::has_winograd(OnednnContext()));
    EXPECT_FALSE(spreads_rows());
}

TEST(OnednnConvolutionPlans, has_no_winograd_in_fp32_on_processors_without_avx512) {
    if (computes_with_avx512()) GTEST_SKIP() << "oneDNN computes with AVX-512 here";
    EXPECT_FALSE(OnednnConvolutionPlans::has_winograd(OnednnContext()));
    EXPECT_EQ(spreads_rows(), vector_bytes == 32);
}

}  // namespace
}  // namespace tutti::test
