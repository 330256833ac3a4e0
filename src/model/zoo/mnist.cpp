#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {

GraphSpec build_mnist(const Shape& input, std::int64_t classes) {
    if (input[0] < 6 || input[1] < 6)
        throw UsageError(
            "model mnist needs images of at least 6 by 6 pixels, but the data have " + to_string(input),
            "use another model or other data");
    GraphSpec graph(input);
    NodeId last = graph.input();
    const auto add = [&](const std::string& name, std::unique_ptr<Layer> layer) {
        last = graph.add(name, std::move(layer), {last});
    };
    const auto convolution = [&](std::int64_t out) {
        Conv2dOptions options;
        options.out = out;
        options.kernel_h = options.kernel_w = 3;
        return make_conv2d(graph.shape(last), options);
    };
    add("conv1", convolution(32));
    add("relu1", make_relu(graph.shape(last)));
    add("conv2", convolution(64));
    add("relu2", make_relu(graph.shape(last)));
    add("pool", make_max_pool2d(graph.shape(last), {}));
    add("dropout1", make_dropout(graph.shape(last), 0.25));
    add("fc1", make_linear(graph.shape(last), 128, true));
    add("relu3", make_relu(graph.shape(last)));
    add("dropout2", make_dropout(graph.shape(last), 0.5));
    add("fc2", make_linear(graph.shape(last), classes, true));
    return graph;
}

}  // namespace tutti
