// The real cuDNN builds an execution plan for every convolution of the models, for a GPU that is not there:
// from its properties, written down after NVIDIA's data sheet of the H200 and the limits of compute
// capability 9.0 (CUDA C++ Programming Guide, "Compute Capabilities"), not read from one. No driver is
// needed. Whether the plans compute what they should, a GPU must show.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cudnn_convolution.hpp"
#include "described_gpu.hpp"
#include "eigen_ops.hpp"
#include "space_to_depth.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti::test {
namespace {

using cuda::ConvolutionPass, cuda::ConvolutionPlan, cuda::ConvolutionProblem, cuda::ProductType;

/// A CPU that remembers which convolutions a model has planned.
class WatchedOps final : public EigenOps<float> {
  public:
    std::unique_ptr<Conv2dOp> conv2d(const Conv2dShape& shape) override {
        shapes.push_back(shape);
        return EigenOps<float>::conv2d(shape);
    }
    std::vector<Conv2dShape> shapes;
};
class WatchedDevice final : public Device {
  public:
    std::string kind() const override { return "cpu"; }
    std::string description() const override { return "watched"; }
    Buffer allocate(std::size_t bytes, const std::string& purpose) override {
        return cpu_->allocate(bytes, purpose);
    }
    void copy_from_host(const TensorView& device, const void* host) override {
        cpu_->copy_from_host(device, host);
    }
    void copy_to_host(void* host, const TensorView& device) override { cpu_->copy_to_host(host, device); }
    Buffer allocate_host(std::size_t bytes, const std::string& purpose) override {
        return cpu_->allocate_host(bytes, purpose);
    }
    bool uploads_ahead() const override { return false; }
    std::unique_ptr<UploadLane> make_upload_lane(std::span<const UploadPart> parts) override {
        return cpu_->make_upload_lane(parts);
    }
    WatchedOps& ops(Arithmetic) override { return ops_; }
    void set_progress(std::function<void()>) override {}

  private:
    std::unique_ptr<Device> cpu_ = make_cpu_device(1);
    WatchedOps ops_;
};

/// The different convolutions of the models.
std::vector<Conv2dShape> zoo_convolutions() {
    const auto models = [] {
        std::vector<GraphSpec> specs;
        specs.push_back(build_lenet({28, 28, 1}, 10));
        specs.push_back(build_mnist({28, 28, 1}, 10));
        specs.push_back(build_resnet("resnet18", {28, 28, 1}, "cifar", 10));
        specs.push_back(build_resnet("resnet18", {224, 224, 3}, "imagenet", 1000));
        specs.push_back(build_resnet("resnet34", {32, 32, 3}, "cifar", 10));
        specs.push_back(build_resnet("resnet50", {224, 224, 3}, "imagenet", 1000));
        specs.push_back(build_locator("resnet18", {384, 384, 3}));
        specs.push_back(build_vit({224, 224, 3}, {.patch = 16, .dim = 64, .depth = 1, .heads = 1}, 10));
        return specs;
    };
    std::map<std::string, Conv2dShape> found;
    for (GraphSpec& spec : models()) {
        WatchedDevice device;
        const Graph graph(std::move(spec), device, DType::f32, 1);
        for (const Conv2dShape& shape : device.ops(DType::f32).shapes)
            found.emplace(describe(ConvolutionProblem{ConvolutionPass::forward, ProductType::fp32, 1, shape}),
                          shape);
    }
    std::vector<Conv2dShape> shapes;
    for (const auto& [name, shape] : found) shapes.push_back(shape);
    return shapes;
}

constexpr ConvolutionPass passes[] = {ConvolutionPass::forward, ConvolutionPass::backward_data,
                                      ConvolutionPass::backward_weight};

TEST(CudnnPlans, exist_for_every_convolution_of_the_models_in_every_precision) {
    const cuda::CudnnDescriptor properties = properties_of(properties_text());
    const std::vector<Conv2dShape> shapes = zoo_convolutions();
    EXPECT_GE(shapes.size(), 30u);
    for (const Conv2dShape& shape : shapes)
        for (const ProductType type : {ProductType::fp32, ProductType::tf32, ProductType::bf16})
            for (const ConvolutionPass pass : passes) {
                ConvolutionProblem problem{pass, type, 32, padded(shape, type)};
                const auto folded = cuda::folded(shape);
                if (folded && type == ProductType::bf16 && pass == ConvolutionPass::forward)
                    problem.shape = *folded;
                try {
                    const ConvolutionPlan plan(problem, {.properties = &properties});
                    // Engine 0 of a gradient adds as it comes, which its notes do not say.
                    EXPECT_GE(plan.engine(), pass == ConvolutionPass::forward ? 0 : 1) << describe(problem);
                    EXPECT_LE(plan.workspace_bytes(), std::int64_t{1} << 30) << describe(problem);
                } catch (const Error& error) {
                    ADD_FAILURE() << error.what();
                }
            }
}

TEST(CudnnPlans, are_made_for_properties_that_cudnn_has_written_itself) {
    const std::string text = text_of(properties_of(properties_text()));
    EXPECT_NE(text.find("\"deviceVer\":900"), std::string::npos) << text;
    EXPECT_EQ(text_of(properties_of(text)), text);
}

TEST(CudnnPlans, of_wide_convolutions_have_others_for_trials_behind_the_first_choice) {
    const cuda::CudnnDescriptor properties = properties_of(properties_text());
    const cuda::CudnnTarget target{.properties = &properties};
    for (const ConvolutionPass pass : passes) {
        const ConvolutionProblem problem{
            pass, ProductType::bf16, 64, {.height = 14, .width = 14, .in = 128, .out = 128}};
        const ConvolutionPlan first(problem, target), all(problem, target, 16);
        EXPECT_FALSE(first.has_other_engines());
        EXPECT_TRUE(all.has_other_engines()) << describe(problem);
        EXPECT_EQ(all.engine(), first.engine());
        EXPECT_EQ(all.workspace_bytes(), first.workspace_bytes());
    }
}

// The heuristic's first choice for many of these is the engine of algorithm 0.
TEST(CudnnPlans, of_gradients_exist_beside_algorithm_0_for_few_channels_and_groups) {
    const cuda::CudnnDescriptor properties = properties_of(properties_text());
    struct Few {
        std::int64_t batch, side, in, out, kernel, stride, padding, groups;
    };
    for (const Few& few :
         {Few{64, 28, 1, 32, 3, 1, 1, 1}, Few{1, 5, 1, 1, 3, 1, 1, 1}, Few{3, 5, 2, 3, 3, 1, 1, 1},
          Few{7, 9, 3, 5, 2, 1, 0, 1}, Few{4, 9, 5, 7, 5, 2, 2, 1}, Few{3, 6, 4, 6, 3, 2, 1, 2},
          Few{4, 8, 16, 16, 3, 1, 1, 16}}) {
        const Conv2dShape shape{.height = few.side,
                                .width = few.side,
                                .in = few.in,
                                .out = few.out,
                                .kernel_h = few.kernel,
                                .kernel_w = few.kernel,
                                .stride_h = few.stride,
                                .stride_w = few.stride,
                                .padding_h = few.padding,
                                .padding_w = few.padding,
                                .groups = few.groups};
        for (const ProductType type : {ProductType::fp32, ProductType::tf32, ProductType::bf16})
            for (const ConvolutionPass pass :
                 {ConvolutionPass::backward_data, ConvolutionPass::backward_weight}) {
                const ConvolutionProblem problem{pass, type, few.batch, padded(shape, type)};
                EXPECT_GT(ConvolutionPlan(problem, {.properties = &properties}).engine(), 0)
                    << describe(problem);
            }
    }
}

TEST(CudnnPlans, of_a_padded_stem_in_bf16_need_little_workspace) {
    const cuda::CudnnDescriptor properties = properties_of(properties_text());
    const Conv2dShape stem{.height = 224,
                           .width = 224,
                           .in = 3,
                           .out = 64,
                           .kernel_h = 7,
                           .kernel_w = 7,
                           .stride_h = 2,
                           .stride_w = 2,
                           .padding_h = 3,
                           .padding_w = 3,
                           .bias = false};
    EXPECT_EQ(padded(stem, ProductType::bf16).in, 8);
    EXPECT_EQ(padded(stem, ProductType::fp32).in, 3);
    const ConvolutionPlan plan(
        {ConvolutionPass::forward, ProductType::bf16, 256, padded(stem, ProductType::bf16)},
        {.properties = &properties});
    EXPECT_LT(plan.workspace_bytes(), 1 << 20);
}

// The engines of cuDNN 9 that compute with compute capability 9's own instructions, which those for 8
// channels do not: they run at a fifth of the rate. Other versions may number them otherwise.
TEST(CudnnPlans, of_a_folded_stem_have_the_engines_of_wide_convolutions) {
    const cuda::CudnnDescriptor properties = properties_of(properties_text());
    const Conv2dShape stem{224, 224, 3, 64, 7, 7, 2, 2, 3, 3}, wide{56, 56, 64, 256};
    const auto plan_of = [&](const Conv2dShape& shape) {
        return ConvolutionPlan({ConvolutionPass::forward, ProductType::bf16, 256, shape},
                               {.properties = &properties});
    };
    const ConvolutionPlan plan = plan_of(cuda::folded(stem).value());
    EXPECT_EQ(plan.engine(), plan_of(wide).engine());
    EXPECT_LT(plan.workspace_bytes(), 1 << 20);
}

TEST(CudnnPlans, are_shared_by_equal_convolutions) {
    const cuda::CudnnDescriptor properties = properties_of(properties_text());
    const cuda::CudnnTarget target{.properties = &properties};
    const ConvolutionProblem problem{ConvolutionPass::forward,
                                     ProductType::bf16,
                                     8,
                                     {.height = 8,
                                      .width = 10,
                                      .in = 64,
                                      .out = 32,
                                      .kernel_h = 3,
                                      .kernel_w = 1,
                                      .padding_h = 1,
                                      .bias = false}};
    cuda::ConvolutionPlans plans;
    const ConvolutionPlan* const first = &plans.find(problem, target);
    EXPECT_EQ(&plans.find(problem, target), first);
    const auto changed = [&](const auto& change) {
        ConvolutionProblem other = problem;
        change(other);
        return &plans.find(other, target);
    };
    EXPECT_EQ(changed([](ConvolutionProblem& p) { p.shape.bias = true; }), first);
    const std::set<const ConvolutionPlan*> all{
        first,
        changed([](ConvolutionProblem& p) { p.pass = ConvolutionPass::backward_data; }),
        changed([](ConvolutionProblem& p) { p.type = ProductType::fp32; }),
        changed([](ConvolutionProblem& p) { p.batch = 4; }),
        changed([](ConvolutionProblem& p) { p.shape.height = 9; }),
        changed([](ConvolutionProblem& p) { p.shape.width = 8; }),
        changed([](ConvolutionProblem& p) { p.shape.in = 32; }),
        changed([](ConvolutionProblem& p) { p.shape.out = 64; }),
        changed([](ConvolutionProblem& p) { p.shape.kernel_h = 1; }),
        changed([](ConvolutionProblem& p) { p.shape.kernel_w = 3; }),
        changed([](ConvolutionProblem& p) { p.shape.stride_h = 2; }),
        changed([](ConvolutionProblem& p) { p.shape.stride_w = 2; }),
        changed([](ConvolutionProblem& p) { p.shape.padding_h = 0; }),
        changed([](ConvolutionProblem& p) { p.shape.padding_w = 1; }),
        changed([](ConvolutionProblem& p) { p.shape.groups = 2; })};
    EXPECT_EQ(all.size(), 15U);
}

TEST(CudnnPlans, are_refused_with_the_engines_for_a_gpu_without_the_type) {
    std::string text = properties_text();
    const std::string version = "\"deviceVer\":900";
    ASSERT_NE(text.find(version), std::string::npos);
    text.replace(text.find(version), version.size(), "\"deviceVer\":700");  // a V100 has no bf16
    const cuda::CudnnDescriptor properties = properties_of(text);
    const ConvolutionProblem problem{
        ConvolutionPass::forward,
        ProductType::bf16,
        32,
        {.height = 8, .width = 8, .in = 64, .out = 64, .kernel_h = 3, .kernel_w = 3}};
    try {
        const ConvolutionPlan plan(problem, {.properties = &properties});
        ADD_FAILURE() << "engine " << plan.engine();
    } catch (const RunError& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find("cuDNN has no engine for conv2d 64 -> 64"), 0u) << message;
    }
}

}  // namespace
}  // namespace tutti::test
