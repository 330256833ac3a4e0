#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "amx_products.hpp"
#include "tutti/base/error.hpp"
#include "tutti/device/device.hpp"

namespace tutti::test {
namespace {

TEST(CpuDeviceTest, says_what_it_is) {
    EXPECT_EQ(make_cpu_device(1)->kind(), "cpu");
    EXPECT_NE(make_cpu_device(1)->description().find(", 1 thread, "), std::string::npos);
    const std::string two = make_cpu_device(2)->description();
    EXPECT_NE(two.find(", 2 threads, "), std::string::npos) << two;
    EXPECT_TRUE(two.find("oneDNN") != std::string::npos || two.find("Eigen") != std::string::npos) << two;
    EXPECT_EQ(two.ends_with(", AMX"), has_amx_products()) << two;
}

TEST(CpuDeviceTest, sets_the_number_of_threads) {
    const auto device = make_cpu_device(2);
    EXPECT_EQ(omp_get_max_threads(), 2);
    EXPECT_THROW(make_cpu_device(0), UsageError);
}

TEST(CpuDeviceTest, memory_is_aligned_and_zero) {
    const auto device = make_cpu_device(2);
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{5} << 20}) {
        const Buffer buffer = device->allocate(bytes, "a test");
        ASSERT_NE(buffer.data(), nullptr);
        EXPECT_EQ(buffer.size(), bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
        EXPECT_TRUE(
            std::all_of(buffer.data(), buffer.data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
    }
}

TEST(CpuDeviceTest, refuses_what_it_does_not_have_and_says_how_much_and_for_what) {
    const auto device = make_cpu_device(1);
    for (const std::size_t bytes : {std::size_t{1} << 50, ~std::size_t{0} - 1}) try {
            const Buffer buffer = device->allocate(bytes, "the gradient arena");
            ADD_FAILURE() << "got " << bytes;
        } catch (const RunError& error) {
            EXPECT_NE(std::string(error.what()).find("MiB of host memory for the gradient arena"),
                      std::string::npos)
                << error.what();
        }
}

TEST(CpuDeviceTest, copies_to_and_from_the_host) {
    const auto device = make_cpu_device(1);
    const Buffer buffer = device->allocate(1024, "a test");
    const TensorView view = buffer.view(64, DType::f64, {2, 2});
    const std::vector<double> in = {1, 2, 3, 4};
    std::vector<double> out(4);
    device->copy_from_host(view, in.data());
    device->copy_to_host(out.data(), view);
    EXPECT_EQ(out, in);
    device->copy_from_host(buffer.view(0, DType::f64, {0}), nullptr);
    device->copy_to_host(nullptr, buffer.view(0, DType::f64, {0}));
}

TEST(CpuDeviceTest, refuses_other_arithmetic_than_its_own) {
    const auto device = make_cpu_device(1);
    EXPECT_EQ(device->ops(DType::f32).compute(), DType::f32);
    EXPECT_EQ(device->ops(DType::f64).compute(), DType::f64);
    EXPECT_EQ(&device->ops(DType::f32), &device->ops(DType::f32));
    EXPECT_THROW(device->ops(DType::bf16), UsageError);
    EXPECT_THROW(device->ops({DType::f64, DType::bf16}), UsageError);
    EXPECT_THROW(device->ops(DType::u8), UsageError);
}

}  // namespace
}  // namespace tutti::test
