// Which engine is taken where the libraries have several, on a GPU whose engines take as long as a test says.

#include <gtest/gtest.h>

#include "../test_tensor.hpp"
#include "cuda_device.hpp"
#include "cuda_ops.hpp"
#include "cudnn_convolution.hpp"
#include "fake_gpu.hpp"
#include "gpu_error.hpp"

namespace tutti::test {
namespace {

using cuda::ProductType;

constexpr Conv2dShape small_convolution{
    .height = 5, .width = 5, .in = 8, .out = 8, .kernel_h = 3, .kernel_w = 3, .bias = false};

/// A context with trials, and what it has told.
struct Trials {
    explicit Trials(bool wanted = true) {
        context->set_notice([this](const std::string& text) { notices.push_back(text); });
        context->set_trials(wanted);
    }
    const cuda::TrialCounts& counts() const { return context->trials()->counts(); }

    std::shared_ptr<cuda::CudaContext> context = std::make_shared<cuda::CudaContext>();
    std::vector<std::string> notices;
};

/// Seconds of one run of `work`, of which engines that are slowed down take all.
double seconds_of(const std::function<void()>& work) {
    const double before = fake_gpu::spent();
    work();
    return fake_gpu::spent() - before;
}

class EngineTrials : public testing::Test {
  protected:
    void SetUp() override { fake_gpu::reset(); }
    void TearDown() override { fake_gpu::reset(); }
};

/// A linear layer's products.
struct Layer {
    Layer(const std::shared_ptr<cuda::CudaContext>& context, ProductType type)
        : ops(context, type), op(ops.linear({8, 16, true})) {}
    void forward() { op->forward(x.view(), weight.view(), bias.view(), y.view()); }
    void backward() {
        op->backward(x.view(), weight.view(), y.view(), dx.view(), dweight.view(), dbias.view());
    }

    cuda::CudaOps ops;
    std::unique_ptr<LinearOp> op;
    TestTensor x = TestTensor::random(DType::f32, {3, 8}, 1);
    TestTensor weight = TestTensor::random(DType::f32, {16, 8}, 2);
    TestTensor bias = TestTensor::random(DType::f32, {16}, 3);
    TestTensor y{DType::f32, {3, 16}}, dx{DType::f32, {3, 8}}, dweight{DType::f32, {16, 8}},
        dbias{DType::f32, {16}};
};

TEST_F(EngineTrials, of_a_product_take_the_fastest_choice_and_keep_it) {
    fake_gpu::slow_down("product choice 0", 4);
    fake_gpu::slow_down("product choice 1", 1);
    fake_gpu::slow_down("product choice 2", 3);
    Trials trials;
    Layer layer(trials.context, ProductType::fp32),
        usual(std::make_shared<cuda::CudaContext>(), ProductType::fp32);
    layer.forward();
    EXPECT_EQ(trials.counts().problems, 1);
    EXPECT_EQ(trials.counts().others, 1);
    EXPECT_NEAR(trials.counts().saved, 3, 0.5);
    EXPECT_EQ(seconds_of([&] { layer.forward(); }), 1);
    EXPECT_EQ(trials.counts().problems, 1);
    EXPECT_EQ(seconds_of([&] { usual.forward(); }), 4);
    EXPECT_EQ(layer.y.bytes(), usual.y.bytes());
    layer.backward();
    usual.backward();
    EXPECT_EQ(trials.counts().problems, 3);
    EXPECT_EQ(seconds_of([&] { layer.backward(); }), 2);
    EXPECT_EQ(layer.dweight.bytes(), usual.dweight.bytes());
    EXPECT_EQ(layer.dx.bytes(), usual.dx.bytes());
}

TEST_F(EngineTrials, leave_the_librarys_first_choice_where_no_other_is_clearly_faster) {
    fake_gpu::slow_down("product choice 0", 100);
    fake_gpu::slow_down("product choice 1", 98);
    fake_gpu::slow_down("product choice 2", 101);
    Trials trials;
    Layer layer(trials.context, ProductType::fp32);
    layer.forward();
    EXPECT_EQ(seconds_of([&] { layer.forward(); }), 100);
    EXPECT_EQ(trials.counts().problems, 1);
    EXPECT_EQ(trials.counts().others, 0);
    EXPECT_EQ(trials.counts().saved, 0);
}

TEST_F(EngineTrials, pass_over_a_choice_that_is_refused) {
    fake_gpu::slow_down("product choice 0", 4);
    fake_gpu::slow_down("product choice 1", 1);
    fake_gpu::slow_down("product choice 2", 2);
    // Where the first cannot run nobody knows what another saves.
    for (const auto& [refused, taken, saved] : {std::array{0, 1, 0}, {1, 2, 2}, {2, 1, 3}}) {
        SCOPED_TRACE(refused);
        fake_gpu::fail_next("run product choice " + std::to_string(refused), CUBLAS_STATUS_EXECUTION_FAILED);
        Trials trials;
        Layer layer(trials.context, ProductType::fp32);
        layer.forward();
        EXPECT_EQ(seconds_of([&] { layer.forward(); }), taken);
        EXPECT_NEAR(trials.counts().saved, saved, saved == 0 ? 0 : 0.5);
    }
}

TEST_F(EngineTrials, without_memory_leave_the_first_choice_and_say_so_once) {
    fake_gpu::slow_down("product choice 0", 4);
    Trials trials(false);
    Layer before(trials.context, ProductType::fp32);
    before.forward();
    before.backward();
    // From here on the next allocation is that of a trial.
    trials.context->set_trials(true);
    Layer layer(trials.context, ProductType::fp32);
    for (int product = 0; product < 2; ++product) {
        fake_gpu::fail_next("cudaMalloc", cudaErrorMemoryAllocation);
        product == 0 ? layer.forward()
                     : layer.op->backward(layer.x.view(), layer.weight.view(), layer.y.view(), {},
                                          layer.dweight.view(), layer.dbias.view());
    }
    EXPECT_EQ(seconds_of([&] { layer.forward(); }), 4);
    EXPECT_EQ(trials.counts().problems, 0);
    ASSERT_EQ(trials.notices.size(), 1u);
    EXPECT_NE(trials.notices[0].find("first choice, not measured: cudaMalloc"), std::string::npos)
        << trials.notices[0];
}

TEST_F(EngineTrials, hold_their_memory_no_longer_than_a_trial) {
    Trials trials;
    Layer layer(trials.context, ProductType::fp32),
        usual(std::make_shared<cuda::CudaContext>(), ProductType::fp32);
    const auto grown = [](const std::function<void()>& work) {
        const std::size_t before = fake_gpu::live_bytes();
        work();
        return fake_gpu::live_bytes() - before;
    };
    EXPECT_EQ(grown([&] { layer.forward(); }), grown([&] { usual.forward(); }));
}

TEST_F(EngineTrials, of_a_convolution_take_the_fastest_engine_in_each_pass) {
    fake_gpu::slow_down("convolution engine 1", 2);
    fake_gpu::slow_down("convolution engine 2", 1);
    Trials trials, none(false);
    auto x = TestTensor::random(DType::bf16, {2, 5, 5, 8}, 1),
         weight = TestTensor::random(DType::f32, {8, 3, 3, 8}, 2),
         dy = TestTensor::random(DType::bf16, {2, 3, 3, 8}, 3);
    const auto results = [&](Trials& of, double seconds) {
        cuda::CudaOps ops(of.context, ProductType::bf16);
        const auto op = ops.conv2d(small_convolution);
        TestTensor y(DType::bf16, {2, 3, 3, 8}), dx(DType::bf16, {2, 5, 5, 8}),
            dweight(DType::f32, {8, 3, 3, 8});
        const auto step = [&] {
            op->forward(x.view(), weight.view(), {}, y.view());
            op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), {}, nullptr);
        };
        step();
        EXPECT_EQ(seconds_of(step), seconds);
        return std::array{y.bytes(), dx.bytes(), dweight.bytes()};
    };
    EXPECT_EQ(results(trials, 3), results(none, 6));
    EXPECT_EQ(trials.counts().problems, 3);
    EXPECT_EQ(trials.counts().others, 3);
}

TEST_F(EngineTrials, add_a_gradient_once_to_what_is_there) {
    Trials trials;
    cuda::CudaOps ops(trials.context, ProductType::bf16);
    Conv2dShape shape = small_convolution;
    const auto plain = ops.conv2d(shape);
    shape.adds_to_dx = true;
    const auto adding = ops.conv2d(shape);
    // Whole numbers, so that no sum is rounded.
    const auto whole = [](const Shape& of, int modulus) {
        TestTensor tensor(DType::bf16, of);
        for (std::size_t i = 0; i < tensor.size(); ++i)
            tensor.set(i, static_cast<double>(static_cast<int>(i) % modulus - 1));
        return tensor;
    };
    TestTensor weight = whole({8, 3, 3, 8}, 3), dy = whole({1, 3, 3, 8}, 3), dx(DType::bf16, {1, 5, 5, 8});
    TestTensor before = whole(dx.view().shape, 5), sum = before;
    plain->backward_data(weight.view(), dy.view(), dx.view());
    adding->backward_data(weight.view(), dy.view(), sum.view());
    EXPECT_EQ(trials.counts().problems, 2);
    for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(sum.get(i), before.get(i) + dx.get(i)) << i;
}

TEST_F(EngineTrials, leave_out_a_convolutions_engine_that_keeps_much_memory) {
    fake_gpu::slow_down("convolution engine 1", 2);
    fake_gpu::slow_down("convolution engine 2", 1);
    for (const bool too_much : {false, true}) {
        fake_gpu::set_workspace("convolution engine 2", (std::int64_t{256} << 20) + (too_much ? 1025 : 1024));
        Trials trials;
        cuda::CudaOps ops(trials.context, ProductType::bf16);
        const auto op = ops.conv2d(small_convolution);
        auto x = TestTensor::random(DType::bf16, {2, 5, 5, 8}, 1),
             weight = TestTensor::random(DType::bf16, {8, 3, 3, 8}, 2);
        TestTensor y(DType::bf16, {2, 3, 3, 8});
        const auto forward = [&] { op->forward(x.view(), weight.view(), {}, y.view()); };
        forward();
        EXPECT_EQ(trials.counts().problems, too_much ? 0 : 1);
        EXPECT_EQ(seconds_of(forward), too_much ? 2 : 1);
    }
}

/// Trials of two engines; seconds(engine, run) tells what run number `run` of an engine takes.
std::size_t fastest_of_two(const std::function<double(std::size_t, int)>& seconds) {
    cuda::EngineTrials trials(nullptr, [](const std::string&) {});
    std::array<int, 2> runs{};
    return trials.fastest({"a product", 2, 64, [&](std::size_t engine, std::byte*) {
                               fake_gpu::slow_down("this run", seconds(engine, runs.at(engine)++));
                               fake_gpu::issue(nullptr, "run", [] { fake_gpu::spend("this run"); });
                           }});
}

TEST_F(EngineTrials, take_no_engine_that_was_fast_by_luck) {
    constexpr int runs_of_a_round = 6;
    const auto lucky = [](std::size_t engine, int run) { return engine == 1 && run == 3 ? 1.0 : 2.0; };
    EXPECT_EQ(fastest_of_two(lucky), 0u);
    const auto twice = [&](std::size_t engine, int run) { return lucky(engine, run % runs_of_a_round); };
    EXPECT_EQ(fastest_of_two(twice), 1u);
}

TEST(ClearlyFaster, is_more_than_scatter_and_than_the_clocks_steps) {
    EXPECT_TRUE(cuda::clearly_faster(96e-6, 100e-6));
    EXPECT_FALSE(cuda::clearly_faster(98e-6, 100e-6));
    EXPECT_FALSE(cuda::clearly_faster(9.1e-6, 10e-6));
    EXPECT_TRUE(cuda::clearly_faster(8.9e-6, 10e-6));
    EXPECT_FALSE(cuda::clearly_faster(100e-6, 96e-6));
}

TEST_F(EngineTrials, name_the_engine_that_the_gpu_died_of) {
    Trials trials;
    Layer layer(trials.context, ProductType::fp32);
    // As the first waiting call behind it has it.
    fake_gpu::fail_next("cudaEventSynchronize", cudaErrorIllegalAddress);
    try {
        layer.forward();
        FAIL() << "nothing was thrown";
    } catch (const RunError& error) {
        const std::string text = error.what();
        for (const char* part : {"engine 1 of those", "cudaErrorIllegalAddress", "run.autotune: false"})
            EXPECT_NE(text.find(part), std::string::npos) << text;
    }
}

TEST_F(EngineTrials, of_one_engine_are_none) {
    Trials trials;
    cuda::CudaOps ops(trials.context, ProductType::fp32);
    const auto op = ops.conv2d(small_convolution);  // fp32: the plain engine alone
    auto x = TestTensor::random(DType::f32, {2, 5, 5, 8}, 1),
         weight = TestTensor::random(DType::f32, {8, 3, 3, 8}, 2);
    TestTensor y(DType::f32, {2, 3, 3, 8});
    op->forward(x.view(), weight.view(), {}, y.view());
    EXPECT_EQ(trials.counts().problems, 0);
}

TEST_F(EngineTrials, are_not_made_while_a_step_is_recorded) {
    fake_gpu::slow_down("product choice 0", 4);
    Trials trials;
    Layer layer(trials.context, ProductType::fp32);
    trials.context->library_workspace().reserve(64 << 20);
    const cuda::RecordedValues values;
    trials.context->record_with(&values);
    EXPECT_EQ(seconds_of([&] { layer.forward(); }), 4);
    trials.context->record_with(nullptr);
    EXPECT_EQ(trials.counts().problems, 0);
}

TEST_F(EngineTrials, are_told_once_when_steps_make_no_more) {
    for (const int choice : {0, 1, 2}) fake_gpu::slow_down("product choice " + std::to_string(choice), 100);
    cuda::CudaDevice device(0);
    std::vector<std::string> notices;
    device.set_notice([&](const std::string& text) { notices.push_back(text); });
    device.begin_step();
    device.set_engine_trials(true);
    const auto op = device.ops(DType::f32).linear({8, 16, false});
    auto x = TestTensor::random(DType::f32, {3, 8}, 1), weight = TestTensor::random(DType::f32, {16, 8}, 2);
    TestTensor y(DType::f32, {3, 16});
    for (int step = 0; step < 4; ++step) {
        device.begin_step();
        op->forward(x.view(), weight.view(), {}, y.view());
        EXPECT_EQ(notices.size(), step < 2 ? 0u : 1u);
    }
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_NE(notices[0].find("1 products and convolutions"), std::string::npos) << notices[0];
    EXPECT_NE(notices[0].find("the library's first choice stays everywhere"), std::string::npos)
        << notices[0];
    // Another shape, and a faster choice.
    fake_gpu::slow_down("product choice 2", 96);
    auto more = TestTensor::random(DType::f32, {5, 8}, 3);
    TestTensor z(DType::f32, {5, 16});
    for (int step = 0; step < 3; ++step) {
        device.begin_step();
        op->forward(more.view(), weight.view(), {}, z.view());
    }
    ASSERT_EQ(notices.size(), 2u);
    EXPECT_NE(notices[1].find("2 products and convolutions"), std::string::npos) << notices[1];
    EXPECT_NE(notices[1].find("1 have another than the library's first choice, which saves 4000"),
              std::string::npos)
        << notices[1];
}

}  // namespace
}  // namespace tutti::test
