#include "backend.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>

namespace tutti::test {
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
    const std::vector<double> values = tensor.values();
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i]))
            EXPECT_TRUE(std::isnan(values[i])) << "element " << i << " is " << values[i];
        else
            EXPECT_EQ(values[i], expected[i]) << "element " << i;
    }
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected, double tolerance) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
            << "element " << i;
}

}  // namespace tutti::test
