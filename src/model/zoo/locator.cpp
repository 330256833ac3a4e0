// A residual network whose last feature map is scaled up again to a heat map, as in "Simple Baselines for
// Human Pose Estimation and Tracking" (Xiao, Wu and Wei 2018), with a second output for presence.

#include "resnet_builder.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {

GraphSpec build_locator(const std::string& backbone, const Shape& input) {
    constexpr std::int64_t coarsest = 32, width = 256;
    for (const auto& [side, what] : {std::pair{input[0], "rows"}, std::pair{input[1], "columns"}})
        if (side % coarsest != 0)
            throw UsageError(
                "the model locator needs images whose sides are multiples of 32, but the data have " +
                    std::to_string(side) + " " + what,
                "pack them anew: trainer pack images --size 384 --fit letterbox");
    ResnetBuilder builder(input, "backbone.");
    builder.trunk(backbone, "imagenet");
    for (int stage = 0; stage < 3; ++stage) {
        // As one sequence of three layers a stage: 0, 1, 2; 3, 4, 5; …
        const auto name = [&](int layer) { return "decoder." + std::to_string(3 * stage + layer); };
        ConvTranspose2dOptions o;
        o.out = width;
        o.kernel_h = o.kernel_w = 4;
        o.stride_h = o.stride_w = 2;
        o.padding_h = o.padding_w = 1;
        o.bias = false;  // the norm behind it has one
        GraphSpec& graph = builder.graph();
        builder.append(name(0), make_conv_transpose2d(graph.shape(builder.last()), o));
        builder.append(name(1), make_batch_norm2d(graph.shape(builder.last()), {}));
        builder.append(name(2), make_relu(graph.shape(builder.last())));
    }
    // Channel 1 is of presence: the mean over all cells of what a 1x1 convolution makes of them is what a
    // linear layer makes of their mean.
    Conv2dOptions head;
    head.out = 2;
    builder.append("head", make_conv2d(builder.graph().shape(builder.last()), head));
    return std::move(builder.graph());
}

}  // namespace tutti
