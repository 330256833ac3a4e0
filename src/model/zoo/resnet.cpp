// Residual networks with the structure and the names of torchvision.models.resnet (K. He, X. Zhang, S. Ren,
// J. Sun, "Deep Residual Learning for Image Recognition", 2015; in bottlenecks the 3×3 convolution strides).

#include <array>
#include <cmath>

#include "resnet_builder.hpp"
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

}  // namespace

ResnetBuilder::ResnetBuilder(const Shape& input, std::string prefix)
    : prefix_(std::move(prefix)), graph_(input), last_(graph_.input()) {}

void ResnetBuilder::append(const std::string& name, std::unique_ptr<Layer> layer) {
    last_ = graph_.add(name, std::move(layer), {last_});
}

void ResnetBuilder::add(const std::string& name, std::unique_ptr<Layer> layer) {
    append(prefix_ + name, std::move(layer));
}

void ResnetBuilder::convolution(const std::string& name, std::int64_t out, std::int64_t kernel,
                                std::int64_t stride) {
    Conv2dOptions o;
    o.out = out;
    o.kernel_h = o.kernel_w = kernel;
    o.stride_h = o.stride_w = stride;
    o.padding_h = o.padding_w = kernel / 2;
    o.bias = false;
    // kaiming_normal_(mode="fan_out", nonlinearity="relu"): a standard deviation of √2/√(out·KH·KW).
    o.weight_initial = Initializer::normal(std::sqrt(2.0 / static_cast<double>(out * kernel * kernel)));
    add(name, make_conv2d(graph_.shape(last_), o));
}

void ResnetBuilder::norm(const std::string& name) {
    add(name, make_batch_norm2d(graph_.shape(last_), {}));
}

void ResnetBuilder::relu(const std::string& name) {
    add(name, make_relu(graph_.shape(last_)));
}

void ResnetBuilder::max_pool(const std::string& name) {
    Pool2dOptions o;
    o.kernel_h = o.kernel_w = 3;
    o.stride_h = o.stride_w = 2;
    o.padding_h = o.padding_w = 1;
    add(name, make_max_pool2d(graph_.shape(last_), o));
}

void ResnetBuilder::block(const std::string& name, std::int64_t width, std::int64_t stride, bool bottleneck) {
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
    last_ = graph_.add(prefix_ + name + ".add", make_add(graph_.shape(residual)), {residual, last_});
    relu(name + ".relu");
}

void ResnetBuilder::trunk(const std::string& name, const std::string& stem) {
    const Architecture architecture = architecture_of(name);
    if (stem == "cifar") {
        convolution("conv1", 64, 3, 1);
    } else {
        convolution("conv1", 64, 7, 2);
    }
    norm("bn1");
    relu("relu");
    if (stem != "cifar") max_pool("maxpool");
    std::int64_t width = 64;
    for (std::size_t stage = 0; stage < architecture.blocks.size(); ++stage, width *= 2)
        for (int number = 0; number < architecture.blocks[stage]; ++number)
            block("layer" + std::to_string(stage + 1) + "." + std::to_string(number), width,
                  stage > 0 && number == 0 ? 2 : 1, architecture.bottleneck);
}

GraphSpec build_resnet(const std::string& name, const Shape& input, const std::string& stem,
                       std::int64_t classes) {
    ResnetBuilder builder(input);
    builder.trunk(name, stem);
    GraphSpec& graph = builder.graph();
    builder.append("avgpool", make_adaptive_avg_pool2d(graph.shape(builder.last()), 1, 1));
    builder.append("fc", make_linear(graph.shape(builder.last()), classes, true));
    return std::move(graph);
}

}  // namespace tutti
