#pragma once
// One convolution pass as an execution plan of cuDNN.

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cublas_products.hpp"
#include "cudnn_plan.hpp"
#include "engine_trials.hpp"
#include "tutti/device/ops.hpp"

namespace tutti::cuda {

enum class ConvolutionPass { forward, backward_data, backward_weight };

/// Tensors are NHWC, weights [O, KH, KW, I/groups]; f32, or all of them bf16 with products in bf16.
struct ConvolutionProblem {
    ConvolutionPass pass = ConvolutionPass::forward;
    ProductType type = ProductType::fp32;
    std::int64_t batch = 0;
    Conv2dShape shape;
};
std::string describe(const ConvolutionProblem& problem);

/// The shape with its input channels padded to what the type's engines want: tensor cores take 8 channels of
/// bf16 at a time, and without a multiple of that cuDNN transposes in a workspace of hundreds of megabytes.
Conv2dShape padded(Conv2dShape shape, ProductType type);

/// An engine that computes in the problem's type (no tensor cores in fp32, which would round to tf32).
class ConvolutionPlan {
  public:
    /// Takes 1 to 200 ms for each engine: cuDNN's first choice, or as many as `most_engines` for trials.
    /// Throws GpuError, RunError (which engines were refused, and why) when there is none.
    ConvolutionPlan(const ConvolutionProblem& problem, const CudnnTarget& target,
                    std::size_t most_engines = 1);

    /// Of the engine that is taken: cuDNN's first choice until trials were made.
    std::int64_t workspace_bytes() const { return plans_.front().workspace_bytes(); }
    std::int64_t engine() const { return plans_.front().engine(); }

    bool has_other_engines() const { return plans_.size() > 1; }
    /// Takes the fastest engine on these operands, of which only inputs are read, and the result is written
    /// where the pass does not add to it. The others are forgotten.
    void take_fastest(EngineTrials& trials, cudnnHandle_t handle, std::byte* x, std::byte* weight,
                      std::byte* y);

    /// x, weight, y: inputs, or the pass's result in its place: dx (to which it is added where the shape
    /// adds_to_dx), dweight or dy. Aligned to 16 bytes. In the
    /// handle's stream.
    void execute(cudnnHandle_t handle, std::byte* x, std::byte* weight, std::byte* y,
                 std::byte* workspace) const;

  private:
    std::string name_;
    std::size_t added_bytes_;  ///< of the result where it is added to what is there, else 0
    CudnnDescriptor x_, weight_, y_, convolution_, operation_, graph_;
    std::vector<CudnnPlan> plans_;
};

/// Plans of all layers of a network, of which many have one shape: a ResNet-50 has 53 convolutions of 23
/// shapes, and building is what its start waits for.
class ConvolutionPlans {
  public:
    /// The plan of an equal problem, or a new one with up to `most_engines`; it lives as long as this. The
    /// bias, which is added by another kernel, makes no difference. Throws as ConvolutionPlan.
    ConvolutionPlan& find(const ConvolutionProblem& problem, const CudnnTarget& target,
                          std::size_t most_engines = 1);

  private:
    using Key = std::array<std::int64_t, 15>;
    std::map<Key, std::unique_ptr<ConvolutionPlan>> plans_;
};

}  // namespace tutti::cuda
