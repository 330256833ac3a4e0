#include "onednn_dealt_linear.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "linear_case.hpp"
#include "tile_linear.hpp"

namespace tutti {
namespace {

using test::linear::LinearCase, test::linear::Threads;

test::linear::Results dealt(LinearCase& of, OnednnDealtLinear& op, bool with_relu) {
    return of.by([&](auto... operands) { op.forward(operands..., with_relu); },
                 [&](auto x, auto weight, auto y, auto... others) {
                     op.backward(x, weight, with_relu ? y : TensorView(), others...);
                 });
}

TEST(OnednnDealtLinear, AgreesWithTheDefinitionWhateverTheNumberOfThreads) {
    const auto context = std::make_shared<OnednnContext>();
    for (const LinearShape& shape : {LinearShape{.in = 130, .out = 150}, LinearShape{96, 200, false},
                                     LinearShape{528, 304}, LinearShape{512, 512}, LinearShape{3136, 128}}) {
        OnednnDealtLinear op(shape, context);
        for (const int threads : {2, 3, 4, 2}) {
            SCOPED_TRACE(threads);
            const Threads limit(threads);
            LinearCase one{shape, 31};
            ASSERT_TRUE(op.takes(one.batch));
            for (const bool with_relu : {false, true})
                EXPECT_EQ(dealt(one, op, with_relu), one.by_definition(with_relu));
        }
    }
}

// What is computed again in backward may go by another number of rows, which are not dealt.
TEST(OnednnDealtLinear, ForwardOfAWideLayerHasTheBitsOfACallThatIsNotDealt) {
    const LinearShape shape{.in = 528, .out = 304};
    if (!takes_tile_linear(shape)) GTEST_SKIP() << "compiled for narrower vectors: oneDNN computes both";
    const Threads limit(3);
    for (const std::int64_t batch : {41, 90}) {
        LinearCase one{shape, batch};
        for (auto* values : {&one.x, &one.weight, &one.bias})
            for (float& value : *values) value /= 3;  // sums that are rounded
        const auto context = std::make_shared<OnednnContext>();
        OnednnDealtLinear op(shape, context);
        ASSERT_TRUE(op.takes(batch));
        std::vector<float> expected(static_cast<std::size_t>(batch * shape.out));
        Workspace workspace;
        for (const bool with_relu : {false, true}) {
            tile_linear_forward(shape, batch, one.x.data(), one.weight.data(), one.bias.data(), with_relu,
                                expected.data(), workspace);
            EXPECT_EQ(dealt(one, op, with_relu).y, expected) << batch << " rows";
        }
    }
}

TEST(OnednnDealtLinear, LeavesOneThreadManyRowsAndSmallLayersToOthers) {
    const auto context = std::make_shared<OnednnContext>();
    const OnednnDealtLinear layer({.in = 784, .out = 512}, context), last({.in = 512, .out = 10}, context),
        flattened({.in = 3136, .out = 128}, context);
    {
        const Threads limit(1);
        EXPECT_FALSE(layer.takes(64));
    }
    const Threads limit(2);
    EXPECT_TRUE(layer.takes(64));
    EXPECT_FALSE(layer.takes(512));
    EXPECT_FALSE(last.takes(64));
    EXPECT_TRUE(flattened.takes(64));  // as many rows, in all threads, as it has outputs
    EXPECT_FALSE(flattened.takes(65));
}

}  // namespace
}  // namespace tutti
