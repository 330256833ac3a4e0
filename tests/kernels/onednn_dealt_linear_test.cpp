#include "onednn_dealt_linear.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <vector>

#include "tile_linear.hpp"

namespace tutti {
namespace {

/// While it lives, OpenMP has so many threads.
class Threads {
  public:
    explicit Threads(int count) { omp_set_num_threads(count); }
    ~Threads() { omp_set_num_threads(before_); }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

  private:
    const int before_ = omp_get_max_threads();
};

/// Small whole numbers: sums of their products are exact in whatever order.
std::vector<float> numbers(std::int64_t count, int seed) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 11 - 5);
    return values;
}

TensorView view(std::vector<float>& values, const Shape& shape) {
    return {reinterpret_cast<std::byte*>(values.data()), DType::f32, shape};
}

struct Results {
    std::vector<float> y, dx, dweight, dbias;
    bool operator==(const Results&) const = default;
};

struct DealtCase {
    LinearShape shape;
    std::int64_t batch;
    std::vector<float> x = numbers(batch * shape.in, 1), weight = numbers(shape.out * shape.in, 2),
                       bias = numbers(shape.out, 3), dy = numbers(batch * shape.out, 4);

    /// `with_relu`: of the layer with a ReLU behind it.
    Results by_definition(bool with_relu) const {
        Results r{std::vector<float>(static_cast<std::size_t>(batch * shape.out)),
                  std::vector<float>(x.size()), std::vector<float>(weight.size()),
                  std::vector<float>(static_cast<std::size_t>(shape.out))};
        const auto at = [](std::int64_t row, std::int64_t columns, std::int64_t column) {
            return static_cast<std::size_t>(row * columns + column);
        };
        for (std::int64_t n = 0; n < batch; ++n)
            for (std::int64_t o = 0; o < shape.out; ++o) {
                float gradient = dy[at(n, shape.out, o)];
                float& y = r.y[at(n, shape.out, o)];
                y = shape.bias ? bias[static_cast<std::size_t>(o)] : 0.0F;
                for (std::int64_t i = 0; i < shape.in; ++i)
                    y += x[at(n, shape.in, i)] * weight[at(o, shape.in, i)];
                if (with_relu && y <= 0) y = gradient = 0;
                r.dbias[static_cast<std::size_t>(o)] += shape.bias ? gradient : 0.0F;
                for (std::int64_t i = 0; i < shape.in; ++i) {
                    r.dx[at(n, shape.in, i)] += gradient * weight[at(o, shape.in, i)];
                    r.dweight[at(o, shape.in, i)] += gradient * x[at(n, shape.in, i)];
                }
            }
        return r;
    }

    Results dealt(OnednnDealtLinear& op, bool with_relu) {
        Results r{std::vector<float>(static_cast<std::size_t>(batch * shape.out)),
                  std::vector<float>(x.size()), std::vector<float>(weight.size()),
                  std::vector<float>(static_cast<std::size_t>(shape.out))};
        const TensorView none;
        op.forward(view(x, {batch, shape.in}), view(weight, {shape.out, shape.in}),
                   shape.bias ? view(bias, {shape.out}) : none, view(r.y, {batch, shape.out}), with_relu);
        int finals = 0;
        const ParametersFinal count = [&] { ++finals; };
        op.backward(view(x, {batch, shape.in}), view(weight, {shape.out, shape.in}),
                    with_relu ? view(r.y, {batch, shape.out}) : none, view(dy, {batch, shape.out}),
                    view(r.dx, {batch, shape.in}), view(r.dweight, {shape.out, shape.in}),
                    shape.bias ? view(r.dbias, {shape.out}) : none, &count);
        EXPECT_EQ(finals, 1);
        return r;
    }
};

TEST(OnednnDealtLinear, AgreesWithTheDefinitionWhateverTheNumberOfThreads) {
    const auto context = std::make_shared<OnednnContext>();
    for (const LinearShape& shape : {LinearShape{.in = 130, .out = 150}, LinearShape{96, 200, false},
                                     LinearShape{528, 304}, LinearShape{512, 512}}) {
        OnednnDealtLinear op(shape, context);
        for (const int threads : {2, 3, 4, 2}) {
            SCOPED_TRACE(threads);
            const Threads limit(threads);
            DealtCase one{shape, 31};
            ASSERT_TRUE(op.takes(one.batch));
            for (const bool with_relu : {false, true})
                EXPECT_EQ(one.dealt(op, with_relu), one.by_definition(with_relu));
        }
    }
}

// What is computed again in backward may go by another number of rows, which are not dealt.
TEST(OnednnDealtLinear, ForwardOfAWideLayerHasTheBitsOfACallThatIsNotDealt) {
    const LinearShape shape{.in = 528, .out = 304};
    if (!takes_tile_linear(shape)) GTEST_SKIP() << "compiled for narrower vectors: oneDNN computes both";
    const Threads limit(3);
    for (const std::int64_t batch : {41, 90}) {
        DealtCase one{shape, batch};
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
            EXPECT_EQ(one.dealt(op, with_relu).y, expected) << batch << " rows";
        }
    }
}

TEST(OnednnDealtLinear, LeavesOneThreadManyRowsAndSmallLayersToOthers) {
    const auto context = std::make_shared<OnednnContext>();
    const OnednnDealtLinear layer({.in = 784, .out = 512}, context), last({.in = 512, .out = 10}, context);
    {
        const Threads limit(1);
        EXPECT_FALSE(layer.takes(64));
    }
    const Threads limit(2);
    EXPECT_TRUE(layer.takes(64));
    EXPECT_FALSE(layer.takes(512));
    EXPECT_FALSE(last.takes(64));
}

}  // namespace
}  // namespace tutti
