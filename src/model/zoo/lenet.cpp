#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {

GraphSpec build_lenet(const Shape& input, std::int64_t classes) {
    GraphSpec graph(input);
    NodeId last = graph.input();
    const auto stage = [&](const std::string& number, std::int64_t out) {
        Conv2dOptions conv;
        conv.out = out;
        conv.kernel_h = conv.kernel_w = 3;
        conv.padding_h = conv.padding_w = 1;
        last = graph.add("conv" + number, make_conv2d(graph.shape(last), conv), {last});
        last = graph.add("relu" + number, make_relu(graph.shape(last)), {last});
        last = graph.add("pool" + number, make_max_pool2d(graph.shape(last), {}), {last});
    };
    stage("1", 32);
    stage("2", 64);
    last = graph.add("fc1", make_linear(graph.shape(last), 128, true), {last});
    last = graph.add("relu3", make_relu(graph.shape(last)), {last});
    graph.add("fc2", make_linear(graph.shape(last), classes, true), {last});
    return graph;
}

}  // namespace tutti
