#include "gradient_sums.hpp"

#include <gtest/gtest.h>

#include "graph_fixture.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

std::vector<std::string> adding(GraphSpec spec) {
    const auto device = make_cpu_device(1);
    fuse_gradient_sums(spec.nodes(), test::of_f64(spec), device->ops({DType::f64}));
    std::vector<std::string> names;
    for (const auto& node : spec.nodes())
        if (node.adds_gradient) names.push_back(node.name);
    return names;
}

TEST(GradientSums, TheNormsOfATransformerAddToTheResiduals) {
    const auto names = adding(build_vit({8, 8, 1}, {.patch = 4, .dim = 8, .depth = 2, .heads = 2}, 4));
    EXPECT_EQ(names, (std::vector<std::string>{"blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm1",
                                               "blocks.1.norm2"}));
}

TEST(GradientSums, TheLastReaderHasNothingToAddTo) {
    GraphSpec spec({8});
    const NodeId fc = spec.add("fc", make_linear({8}, 8, true), {0});
    const NodeId first = spec.add("first", make_layer_norm({8}, 1e-5), {fc});
    const NodeId last = spec.add("last", make_layer_norm({8}, 1e-5), {fc});
    spec.add("add", make_add({8}), {first, last});
    EXPECT_EQ(adding(std::move(spec)), std::vector<std::string>{"first"});
}

// Both norms and the sum read one value; its gradient begins with the sum's, or with the second norm's.
TEST(GradientSums, GradientsAgreeWithFiniteDifferences) {
    for (const bool residual : {true, false}) {
        SCOPED_TRACE(residual);
        GraphSpec spec({6});
        const NodeId fc = spec.add("fc", make_linear({6}, 6, true), {0});
        const NodeId first = spec.add("first", make_layer_norm({6}, 1e-5), {fc});
        const NodeId branch = spec.add("branch", make_linear({6}, 6, true), {first});
        const NodeId second = residual ? fc : spec.add("second", make_layer_norm({6}, 1e-5), {fc});
        const NodeId sum = spec.add("sum", make_add({6}), {branch, second});
        const NodeId third = spec.add("third", make_layer_norm({6}, 1e-5), {sum});
        const NodeId again = spec.add("again", make_linear({6}, 6, true), {third});
        spec.add("sum2", make_add({6}), {again, sum});
        test::GradientCheck(std::move(spec), 3).expect_gradients(1e-6);
    }
}

}  // namespace
}  // namespace tutti
