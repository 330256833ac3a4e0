#pragma once
// A linear layer whose sums are exact in whatever order, computed by definition and by classes of
// kernels/cpu.

#include <gtest/gtest.h>
#include <omp.h>

#include <cstdint>
#include <vector>

#include "tutti/device/ops.hpp"

namespace tutti::test::linear {

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
inline std::vector<float> numbers(std::int64_t count, int seed) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 11 - 5);
    return values;
}

inline TensorView view(std::vector<float>& values, const Shape& shape) {
    return {reinterpret_cast<std::byte*>(values.data()), DType::f32, shape};
}

struct Results {
    std::vector<float> y, dx, dweight, dbias;
    bool operator==(const Results&) const = default;
};

struct LinearCase {
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

    /// forward(x, weight, bias, y), then backward(x, weight, y, dy, dx, dweight, dbias, final), which must
    /// call the last once.
    template <class Forward, class Backward>
    Results by(const Forward& forward, const Backward& backward) {
        Results r{std::vector<float>(static_cast<std::size_t>(batch * shape.out)),
                  std::vector<float>(x.size()), std::vector<float>(weight.size()),
                  std::vector<float>(static_cast<std::size_t>(shape.out))};
        const TensorView xs = view(x, {batch, shape.in}), weights = view(weight, {shape.out, shape.in}),
                         y = view(r.y, {batch, shape.out});
        forward(xs, weights, shape.bias ? view(bias, {shape.out}) : TensorView(), y);
        std::vector<float> when_final;
        const ParametersFinal final = [&] {
            EXPECT_TRUE(when_final.empty());
            when_final = r.dweight;
        };
        backward(xs, weights, y, view(dy, {batch, shape.out}), view(r.dx, {batch, shape.in}),
                 view(r.dweight, {shape.out, shape.in}),
                 shape.bias ? view(r.dbias, {shape.out}) : TensorView(), &final);
        EXPECT_EQ(when_final, r.dweight);
        return r;
    }
};

}  // namespace tutti::test::linear
