// Residual networks with the structure and the names of torchvision.models.resnet (K. He, X. Zhang, S. Ren,
// J. Sun, "Deep Residual Learning for Image Recognition", 2015; in bottlenecks the 3×3 convolution strides).

#include <array>
#include <cmath>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

struct Architecture {
    std::array<int, 4> blocks;
    bool bottleneck;
};

Architecture architecture_of(const std::string& name) {
    if (name == "resnet18") return {{2, 2, 2, 2}, false};
    if (name == "resnet34") return {{3, 4, 6, 3}, false};
    if (name == "resnet50") return {{3, 4, 6, 3}, true};
    throw UsageError("no residual network is called " + name, "there are resnet18, resnet34 and resnet50");
}

class Builder {
  public:
    explicit Builder(const Shape& input) : graph_(input), last_(graph_.input()) {}

    void convolution(const std::string& name, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
        Conv2dOptions o;
        o.out = out;
        o.kernel_h = o.kernel_w = kernel;
        o.stride_h = o.stride_w = stride;
        o.padding_h = o.padding_w = kernel / 2;
        o.bias = false;
        // kaiming_normal_(mode="fan_out", nonlinearity="relu"): a standard deviation of √2/√(out·KH·KW).
        o.weight_initial = Initializer::normal(std::sqrt(2.0 / static_cast<double>(out * kernel * kernel)));
        last_ = graph_.add(name, make_conv2d(graph_.shape(last_), o), {last_});
    }
    void norm(const std::string& name) {
        last_ = graph_.add(name, make_batch_norm2d(graph_.shape(last_), {}), {last_});
    }
    void relu(const std::string& name) { last_ = graph_.add(name, make_relu(graph_.shape(last_)), {last_}); }
    void max_pool(const std::string& name) {
        Pool2dOptions o;
        o.kernel_h = o.kernel_w = 3;
        o.stride_h = o.stride_w = 2;
        o.padding_h = o.padding_w = 1;
        last_ = graph_.add(name, make_max_pool2d(graph_.shape(last_), o), {last_});
    }

    /// BasicBlock, or Bottleneck: to 4 · width channels.
    void block(const std::string& name, std::int64_t width, std::int64_t stride, bool bottleneck) {
        const NodeId input = last_;
        const std::int64_t out = bottleneck ? 4 * width : width;
        if (bottleneck) {
            convolution(name + ".conv1", width, 1, 1);
            norm(name + ".bn1");
            relu(name + ".relu1");
            convolution(name + ".conv2", width, 3, stride);
            norm(name + ".bn2");
            relu(name + ".relu2");
            convolution(name + ".conv3", out, 1, 1);
            norm(name + ".bn3");
        } else {
            convolution(name + ".conv1", width, 3, stride);
            norm(name + ".bn1");
            relu(name + ".relu1");
            convolution(name + ".conv2", width, 3, 1);
            norm(name + ".bn2");
        }
        const NodeId residual = last_;
        last_ = input;
        if (stride != 1 || graph_.shape(input)[2] != out) {
            convolution(name + ".downsample.0", out, 1, stride);
            norm(name + ".downsample.1");
        }
        last_ = graph_.add(name + ".add", make_add(graph_.shape(residual)), {residual, last_});
        relu(name + ".relu");
    }

    GraphSpec finish(std::int64_t classes) {
        last_ = graph_.add("avgpool", make_adaptive_avg_pool2d(graph_.shape(last_), 1, 1), {last_});
        graph_.add("fc", make_linear(graph_.shape(last_), classes, true), {last_});
        return std::move(graph_);
    }

  private:
    GraphSpec graph_;
    NodeId last_;
};

}  // namespace

GraphSpec build_resnet(const std::string& name, const Shape& input, const std::string& stem,
                       std::int64_t classes) {
    const Architecture architecture = architecture_of(name);
    Builder builder(input);
    if (stem == "cifar") {
        builder.convolution("conv1", 64, 3, 1);
    } else {
        builder.convolution("conv1", 64, 7, 2);
    }
    builder.norm("bn1");
    builder.relu("relu");
    if (stem != "cifar") builder.max_pool("maxpool");
    std::int64_t width = 64;
    for (std::size_t stage = 0; stage < architecture.blocks.size(); ++stage, width *= 2)
        for (int block = 0; block < architecture.blocks[stage]; ++block)
            builder.block("layer" + std::to_string(stage + 1) + "." + std::to_string(block), width,
                          stage > 0 && block == 0 ? 2 : 1, architecture.bottleneck);
    return builder.finish(classes);
}

}  // namespace tutti
