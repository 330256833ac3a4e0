#include "row_softmax.hpp"

#include <limits>

#include "row_groups.hpp"

namespace tutti::cuda {
namespace {

// A thread reads and writes the same elements of a row in each pass.
template <class Group>
__global__ void __launch_bounds__(row_threads, 1)
    softmax_rows(float* RESTRICT scores, std::int64_t rows, int width) {
    constexpr int threads = row_threads / Group::per_block;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        float* x = scores + row * width;
        const float lowest = -std::numeric_limits<float>::infinity();
        float maximum = lowest;
        for (int k = Group::member(); k < width; k += threads) maximum = fmaxf(maximum, x[k]);
        maximum = Group::reduce(maximum, lowest, Maximum<float>{});
        double sum = 0;
        for (int k = Group::member(); k < width; k += threads) {
            const float e = expf(x[k] - maximum);
            x[k] = e;
            sum += static_cast<double>(e);
        }
        const float inverse = static_cast<float>(1 / Group::sum(sum));
        for (int k = Group::member(); k < width; k += threads) x[k] *= inverse;
    }
}

template <class Group>
__global__ void __launch_bounds__(row_threads, 1)
    differentiate_rows(const float* RESTRICT probabilities, float factor, float* RESTRICT gradient,
                       std::int64_t rows, int width) {
    constexpr int threads = row_threads / Group::per_block;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const float* p = probabilities + row * width;
        float* dp = gradient + row * width;
        double sum = 0;
        for (int k = Group::member(); k < width; k += threads)
            sum += static_cast<double>(p[k]) * static_cast<double>(dp[k]);
        const float mean = static_cast<float>(Group::sum(sum));
        for (int k = Group::member(); k < width; k += threads) dp[k] = factor * p[k] * (dp[k] - mean);
    }
}

std::int64_t rows_of(const TensorView& x) {
    return x.count() / x.shape[x.shape.rank() - 1];
}

}  // namespace

void row_softmax_forward(const TensorView& scores, Stream stream) {
    const std::int64_t rows = rows_of(scores), width = scores.shape[scores.shape.rank() - 1];
    with_row_group(width, [&]<class Group>(Group) {
        launch("row_softmax_forward", softmax_rows<Group>, row_geometry(rows, Group::per_block), stream,
               scores.as<float>(), rows, static_cast<int>(width));
    });
}

void row_softmax_backward(const TensorView& probabilities, float factor, const TensorView& gradient,
                          Stream stream) {
    assert(probabilities.count() == gradient.count());
    const std::int64_t rows = rows_of(gradient), width = gradient.shape[gradient.shape.rank() - 1];
    with_row_group(width, [&]<class Group>(Group) {
        launch("row_softmax_backward", differentiate_rows<Group>, row_geometry(rows, Group::per_block),
               stream, probabilities.as<float>(), factor, gradient.as<float>(), rows,
               static_cast<int>(width));
    });
}

}  // namespace tutti::cuda
