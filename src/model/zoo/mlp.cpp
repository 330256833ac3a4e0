#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {

GraphSpec build_mlp(const Shape& input, std::span<const std::int64_t> hidden, std::int64_t classes) {
    GraphSpec graph(input);
    NodeId last = graph.input();
    std::size_t number = 1;
    const auto name = [&](const char* prefix) { return prefix + std::to_string(number); };
    for (const std::int64_t width : hidden) {
        last = graph.add(name("fc"), make_linear(graph.shape(last), width, true), {last});
        last = graph.add(name("relu"), make_relu(graph.shape(last)), {last});
        ++number;
    }
    graph.add(name("fc"), make_linear(graph.shape(last), classes, true), {last});
    return graph;
}

}  // namespace tutti
