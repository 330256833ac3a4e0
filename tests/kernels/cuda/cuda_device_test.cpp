// The CUDA device on the fake GPU: memory, copies, errors, and which convolution plans are taken.

#include "cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <functional>

#include "../test_tensor.hpp"
#include "cuda_ops.hpp"
#include "cudnn_convolution.hpp"
#include "fake_gpu.hpp"
#include "gpu_error.hpp"

namespace tutti::test {
namespace {

class CudaDeviceTest : public testing::Test {
  protected:
    CudaDeviceTest() { fake_gpu::reset(); }
};

template <class Error>
std::string message_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST_F(CudaDeviceTest, memory_is_zeroed_aligned_and_freed) {
    const std::size_t before = fake_gpu::live_allocations();
    {
        cuda::CudaDevice device(0);
        EXPECT_EQ(device.kind(), "cuda");
        EXPECT_EQ(device.description(), "fake GPU, 1024 MiB, cuDNN 9.19.0");
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
            const Buffer buffer = device.allocate(bytes, "a test");
            EXPECT_NE(buffer.data(), nullptr);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0u);
            EXPECT_EQ(buffer.size(), bytes);
            std::vector<unsigned char> host(bytes, 1);
            device.copy_to_host(host.data(), buffer.view(0, DType::u8, {static_cast<std::int64_t>(bytes)}));
            EXPECT_EQ(host, std::vector<unsigned char>(bytes, 0));
        }
    }
    EXPECT_EQ(fake_gpu::live_allocations(), before);
}

TEST_F(CudaDeviceTest, copies_wait_so_that_the_host_may_go_on_with_its_memory) {
    cuda::CudaDevice device(0);
    const Buffer buffer = device.allocate(16, "a test");
    const TensorView view = buffer.view(0, DType::f32, {4});
    const std::vector<float> sent{1, 2, 3, 4};
    fake_gpu::clear_record();
    device.copy_from_host(view, sent.data());
    std::vector<float> got(4);
    device.copy_to_host(got.data(), view);
    EXPECT_EQ(got, sent);
    EXPECT_EQ(fake_gpu::record(),
              (std::vector<std::string>{"stream 1: copy 16 bytes to the device", "host: wait for stream 1",
                                        "stream 1: copy 16 bytes to the host", "host: wait for stream 1"}));
}

TEST_F(CudaDeviceTest, marks_have_the_times_at_which_the_gpu_was_there) {
    cuda::CudaDevice device(0);
    const std::unique_ptr<DeviceMarks> marks = device.make_marks();
    const auto before = DeviceMarks::Clock::now();
    fake_gpu::clear_record();
    fake_gpu::hold_back({1});  // what is issued is done when the host waits for it
    EXPECT_EQ(marks->set(), 0U);
    EXPECT_EQ(marks->set(), 1U);
    const auto issued = DeviceMarks::Clock::now();
    marks->wait();
    fake_gpu::hold_back({});
    EXPECT_EQ(fake_gpu::record(),
              (std::vector<std::string>{"stream 1: record event 2", "stream 1: record event 3",
                                        "stream 1: record event 1", "host: wait for event 1"}));
    EXPECT_GE(marks->passed(0), issued - std::chrono::microseconds(1));
    EXPECT_LE(marks->passed(0), marks->passed(1));
    EXPECT_LE(marks->passed(1), DeviceMarks::Clock::now());
    EXPECT_LT(before, marks->passed(0));
    marks->clear();
    EXPECT_EQ(marks->set(), 0U);
    fake_gpu::fail_next("cudaEventSynchronize", cudaErrorIllegalAddress);
    EXPECT_NE(message_of<Error>([&] { marks->wait(); }).find("cudaEventSynchronize"), std::string::npos);
}

TEST_F(CudaDeviceTest, the_host_cannot_touch_its_memory) {
    cuda::CudaDevice device(0);
    const Buffer buffer = device.allocate(16, "a test");
    EXPECT_EXIT(*reinterpret_cast<volatile char*>(buffer.data()) = 1, testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(CudaDeviceTest, a_lack_of_memory_names_the_purpose_and_the_remedy) {
    cuda::CudaDevice device(0);
    fake_gpu::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
    EXPECT_EQ(message_of<RunError>([&] { device.allocate(std::size_t{5} << 20, "the gradient arena"); }),
              "cudaMalloc of 5 MiB for the gradient arena (12 MiB of 1024 MiB are free) failed: "
              "cudaErrorMemoryAllocation (CUDA 2), as the fake was asked; use a smaller train.batch_size or "
              "model, or set train.recompute: true; nvidia-smi shows who else uses the GPU");
}

TEST_F(CudaDeviceTest, a_gpu_that_is_not_there_is_refused) {
    EXPECT_THROW(cuda::CudaDevice(1), cuda::GpuError);
}

TEST_F(CudaDeviceTest, computes_in_fp32_tf32_and_bf16_and_not_in_fp64) {
    cuda::CudaDevice device(0);
    Ops& fp32 = device.ops(DType::f32);
    EXPECT_EQ(&fp32, &device.ops(DType::f32));
    EXPECT_NE(&fp32, &device.ops(Arithmetic::tf32()));
    EXPECT_NE(&fp32, &device.ops(Arithmetic(DType::f32, DType::bf16)));
    EXPECT_EQ(message_of<UsageError>([&] { device.ops(DType::f64); }),
              "arithmetic in f64 on the GPU; set train.precision to fp32, tf32 or bf16, or device: cpu");
}

TEST_F(CudaDeviceTest, streams_wait_for_events_of_others) {
    cuda::OwnedStream first, second(cuda::StreamPriority::high);
    cuda::Event event;
    event.record(first.get());
    second.wait(event);
    EXPECT_TRUE(event.reached());
    fake_gpu::fail_next("cudaEventQuery", cudaErrorNotReady);
    EXPECT_FALSE(event.reached());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "that it is not reached is no error of a later launch";
    fake_gpu::fail_next("cudaEventQuery", cudaErrorIllegalAddress);
    EXPECT_THROW(event.reached(), cuda::GpuError);
    EXPECT_EQ(fake_gpu::record(),
              (std::vector<std::string>{"stream 1: record event 1", "stream 2: wait for event 1"}));
}

struct Refusal {
    std::string function;
    int code;
    std::string component, name, remedy;  ///< remedy: a part of it; empty for none
};

TEST_F(CudaDeviceTest, refusals_of_the_three_libraries_become_typed_errors) {
    const Refusal refusals[] = {
        {"cudaMemcpyAsync", cudaErrorIllegalAddress, "CUDA", "cudaErrorIllegalAddress", "compute-sanitizer"},
        {"cudaStreamSynchronize", cudaErrorInsufficientDriver, "CUDA", "cudaErrorInsufficientDriver",
         "driver is too old"},
        {"cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED, "cuBLASLt", "CUBLAS_STATUS_ALLOC_FAILED",
         "train.batch_size"},
        {"cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED, "cuBLASLt",
         "CUBLAS_STATUS_NOT_SUPPORTED", ""},
        {"cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED, "cuBLASLt", "CUBLAS_STATUS_EXECUTION_FAILED",
         "compute-sanitizer"},
        {"cudnnCreate", CUDNN_STATUS_NOT_SUPPORTED, "cuDNN", "CUDNN_STATUS_NOT_SUPPORTED", ""},
        {"cudnnBackendSetAttribute", CUDNN_STATUS_BAD_PARAM, "cuDNN", "CUDNN_STATUS_BAD_PARAM", ""},
        {"cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED, "cuDNN", "CUDNN_STATUS_EXECUTION_FAILED", ""},
    };
    for (const Refusal& refusal : refusals) {
        SCOPED_TRACE(refusal.function);
        cuda::CudaDevice device(0);
        Ops& ops = device.ops(DType::f32);
        const Buffer memory = device.allocate(4096, "a test");
        const TensorView x = memory.view(0, DType::f32, {1, 2}), weight = memory.view(64, DType::f32, {2, 2});
        const TensorView y = memory.view(128, DType::f32, {1, 2});
        const TensorView image = memory.view(0, DType::f32, {1, 1, 1, 2});
        const TensorView kernel = memory.view(64, DType::f32, {2, 1, 1, 2});
        const TensorView result = memory.view(128, DType::f32, {1, 1, 1, 2});
        const auto linear = ops.linear({.in = 2, .out = 2, .bias = false});
        const auto convolution = ops.conv2d({.height = 1, .width = 1, .in = 2, .out = 2, .bias = false});
        fake_gpu::fail_next(refusal.function, refusal.code);
        try {
            float host[2];
            linear->forward(x, weight, {}, y);
            convolution->forward(image, kernel, {}, result);
            device.copy_to_host(host, y);
            ADD_FAILURE() << "nothing was thrown";
        } catch (const cuda::GpuError& error) {
            EXPECT_EQ(error.code(), ExitCode::failed);
            EXPECT_EQ(error.component(), refusal.component);
            EXPECT_EQ(error.name(), refusal.name);
            EXPECT_EQ(error.number(), refusal.code);
            EXPECT_NE(error.call().find(refusal.function), std::string::npos) << error.call();
            const std::string text = error.what();
            EXPECT_EQ(text.find("; ") != std::string::npos, !refusal.remedy.empty()) << text;
            EXPECT_NE(text.find(refusal.remedy), std::string::npos) << text;
        }
    }
}

TEST_F(CudaDeviceTest, convolutions_take_an_engine_of_their_precision_that_repeats_its_bits) {
    cuda::CudaContext context;
    const Conv2dShape shape{.height = 4, .width = 4, .in = 8, .out = 8, .kernel_h = 3, .kernel_w = 3};
    // Engine 0 gives other bits each time, 1 is on tensor cores, 2 is plain (fake_cudnn.cpp).
    for (const auto& [type, engine] :
         {std::pair{cuda::ProductType::fp32, 2}, {cuda::ProductType::tf32, 1}, {cuda::ProductType::bf16, 1}})
        for (const auto pass : {cuda::ConvolutionPass::forward, cuda::ConvolutionPass::backward_data,
                                cuda::ConvolutionPass::backward_weight}) {
            const cuda::ConvolutionPlan plan({pass, type, 2, shape}, {.handle = context.cudnn()});
            EXPECT_EQ(plan.engine(), engine);
        }
}

TEST_F(CudaDeviceTest, an_engine_that_cannot_be_built_gives_way_to_the_next) {
    cuda::CudaContext context;
    const cuda::ConvolutionProblem problem{cuda::ConvolutionPass::forward,
                                           cuda::ProductType::bf16,
                                           2,
                                           {.height = 4, .width = 4, .in = 8, .out = 8}};
    fake_gpu::fail_next("finalize an execution plan", CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(cuda::ConvolutionPlan(problem, {.handle = context.cudnn()}).engine(), 2);
}

TEST_F(CudaDeviceTest, a_heuristic_that_does_not_take_a_graph_gives_way_to_the_next) {
    cuda::CudaContext context;
    const cuda::ConvolutionProblem problem{cuda::ConvolutionPass::forward,
                                           cuda::ProductType::bf16,
                                           2,
                                           {.height = 4, .width = 4, .in = 8, .out = 8}};
    const auto engine = [&] { return cuda::ConvolutionPlan(problem, {.handle = context.cudnn()}).engine(); };
    const std::int64_t usual = engine();
    for (const cudnnStatus_t status : {CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_INTERNAL_ERROR}) {
        fake_gpu::fail_next("finalize heuristic A", status);
        EXPECT_EQ(engine(), usual);
    }
    fake_gpu::fail_next("finalize heuristic A", CUDNN_STATUS_NOT_SUPPORTED);
    fake_gpu::fail_next("finalize heuristic FALLBACK", CUDNN_STATUS_NOT_SUPPORTED);
    const std::string refused = message_of<cuda::NoCudnnEngine>(engine);
    EXPECT_NE(refused.find("mode A: "), std::string::npos) << refused;
    EXPECT_NE(refused.find(", mode FALLBACK: "), std::string::npos) << refused;
    fake_gpu::fail_next("finalize heuristic A", CUDNN_STATUS_INTERNAL_ERROR);
    fake_gpu::fail_next("finalize heuristic FALLBACK", CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(message_of<cuda::GpuError>(engine).substr(0, 29), "cudnnBackendFinalize: plan of");
}

std::int64_t recorded(const std::string& part) {
    const auto& record = fake_gpu::record();
    return std::count_if(record.begin(), record.end(),
                         [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST_F(CudaDeviceTest, the_gradient_of_a_bias_has_a_kernel_of_its_own) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16);
    const auto linear = ops.linear({.in = 8, .out = 5});
    auto x = TestTensor::random(DType::f32, {3, 8}, 1), weight = TestTensor::random(DType::f32, {5, 8}, 2);
    TestTensor dy(DType::f32, {3, 5}, {1, 2, 3, 4, 5, 0.5, 1, 2, 4, 8, -1, -2, -3, -4, -5});  // in bf16, too
    TestTensor dx(DType::f32, {3, 8}), dweight(DType::f32, {5, 8}), dbias(DType::f32, {5});
    for (int step = 0; step < 2; ++step) {
        fake_gpu::clear_record();
        linear->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
        EXPECT_EQ(dbias.values(), (std::vector<double>{0.5, 1, 2, 4, 8}));
        EXPECT_EQ(recorded("launch bias_backward sum"), 1);
        EXPECT_EQ(recorded(": product"), 2);
    }
}

TEST_F(CudaDeviceTest, a_bias_is_added_by_a_product_or_where_it_cannot_on_its_own) {
    std::vector<std::vector<double>> in_bf16;  // with the bias as it was, and rounded before
    // No layer gives a rounded bias to a result in f32.
    for (const auto& [result, given] : {std::pair{DType::f32, DType::f32}, std::pair{DType::bf16, DType::f32},
                                        std::pair{DType::bf16, DType::bf16}}) {
        const auto context = std::make_shared<cuda::CudaContext>();
        std::vector<std::string> notices;
        context->set_notice([&](const std::string& text) { notices.push_back(text); });
        cuda::CudaOps ops(context, cuda::ProductType::bf16);
        const auto linear = ops.linear({.in = 8, .out = 5}), alone = ops.linear({.in = 8, .out = 5});
        auto x = TestTensor::random(DType::bf16, {3, 8}, 1),
             weight = TestTensor::random(DType::bf16, {5, 8}, 2);
        TestTensor bias(given, {5}, {1.0037, -2.007, 0.3, 4.013, -8.028}), expected(result, {3, 5}),
            y(result, {3, 5});
        linear->forward(x.view(), weight.view(), bias.view(), expected.view());
        for (int step = 0; step < 2; ++step) {
            fake_gpu::clear_record();
            if (step == 0) fake_gpu::fail_next("cublasLtMatmul", CUBLAS_STATUS_NOT_SUPPORTED);
            alone->forward(x.view(), weight.view(), bias.view(), y.view());
            EXPECT_EQ(recorded("launch bias_forward"), 1);
            EXPECT_EQ(recorded(": product"), 1);
            // In bf16 the product is rounded before the bias.
            const auto want = expected.values(), found = y.values();
            for (std::size_t i = 0; i < want.size(); ++i)
                EXPECT_NEAR(found[i], want[i], result == DType::bf16 ? 0.07 : 1e-6);
        }
        if (result == DType::bf16) in_bf16.push_back(y.values());
        ASSERT_EQ(notices.size(), 1u);
        EXPECT_NE(notices[0].find("3 x 8 by 8 x 5"), std::string::npos) << notices[0];
    }
    EXPECT_EQ(in_bf16.at(0), in_bf16.at(1));
}

TEST_F(CudaDeviceTest, a_broken_gpu_does_not_look_like_a_product_without_an_epilogue) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::fp32);
    const auto linear = ops.linear({.in = 8, .out = 5});
    TestTensor x(DType::f32, {3, 8}), weight(DType::f32, {5, 8}), dy(DType::f32, {3, 5}),
        dweight(DType::f32, {5, 8}), dbias(DType::f32, {5});
    fake_gpu::fail_next("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
    EXPECT_THROW(linear->backward(x.view(), weight.view(), dy.view(), {}, dweight.view(), dbias.view()),
                 cuda::GpuError);
}

TEST_F(CudaDeviceTest, bf16_convolutions_pad_the_channels_of_a_stem) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16), exact(context, cuda::ProductType::fp32);
    const Conv2dShape shape{.height = 5,
                            .width = 6,
                            .in = 3,
                            .out = 8,
                            .kernel_h = 3,
                            .kernel_w = 3,
                            .padding_h = 1,
                            .padding_w = 1};
    auto x = TestTensor::random(DType::f32, {2, 5, 6, 3}, 1),
         w = TestTensor::random(DType::f32, {8, 3, 3, 3}, 2);
    auto bias = TestTensor::random(DType::f32, {8}, 3), dy = TestTensor::random(DType::f32, {2, 5, 6, 8}, 4);
    std::vector<std::vector<double>> results[2];
    fake_gpu::clear_record();
    for (int i = 0; i < 2; ++i) {
        const auto op = (i == 0 ? exact : ops).conv2d(shape);
        TestTensor y(DType::f32, {2, 5, 6, 8}), dx(DType::f32, {2, 5, 6, 3}), dw(DType::f32, {8, 3, 3, 3});
        TestTensor dbias(DType::f32, {8});
        op->forward(x.view(), w.view(), bias.view(), y.view());
        op->backward(x.view(), w.view(), dy.view(), dx.view(), dw.view(), dbias.view());
        results[i] = {y.values(), dx.values(), dw.values(), dbias.values()};
    }
    for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < results[0][k].size(); ++i)
            EXPECT_NEAR(results[1][k][i], results[0][k][i], 0.05 * std::max(1.0, std::abs(results[0][k][i])));
    const auto padded =
        std::count(fake_gpu::record().begin(), fake_gpu::record().end(), "stream 1: launch pad_channels");
    EXPECT_EQ(padded, 6) << "x and weight; then x and dweight; then weight and dx";
}

TEST_F(CudaDeviceTest, bf16_convolutions_of_stride_2_over_few_channels_are_folded_forward) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16);
    const Conv2dShape shape{8, 8, 3, 8, 7, 7, 2, 2, 3, 3};
    auto x = TestTensor::random(DType::bf16, {2, 8, 8, 3}, 1),
         w = TestTensor::random(DType::f32, {8, 7, 7, 3}, 2);
    auto bias = TestTensor::random(DType::f32, {8}, 3), dy = TestTensor::random(DType::bf16, {2, 4, 4, 8}, 4);
    TestTensor y(DType::bf16, {2, 4, 4, 8}), dx(DType::bf16, {2, 8, 8, 3}), dw(DType::f32, {8, 7, 7, 3});
    TestTensor dbias(DType::f32, {8});
    const auto launches = [](const std::string& kernel) {
        return std::ranges::count(fake_gpu::record(), "stream 1: launch " + kernel);
    };
    const auto op = ops.conv2d(shape);
    fake_gpu::clear_record();
    op->forward(x.view(), w.view(), bias.view(), y.view());
    op->backward(x.view(), w.view(), dy.view(), {}, dw.view(), dbias.view());
    (void)y.values();
    EXPECT_EQ(launches("space_to_depth"), 1);
    EXPECT_EQ(launches("fold_weight"), 1);
    EXPECT_EQ(launches("pad_channels"), 2) << "x and dweight";
    op->backward_data(w.view(), dy.view(), dx.view());
    (void)dx.values();
    EXPECT_EQ(launches("space_to_depth"), 1);
    EXPECT_EQ(launches("pad_channels"), 4) << "weight and dx";
}

}  // namespace
}  // namespace tutti::test
