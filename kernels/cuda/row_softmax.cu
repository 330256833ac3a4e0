#include "row_softmax.hpp"

#include <cassert>
#include <limits>
#include <type_traits>

#include "row_groups.hpp"
#include "storage.hpp"

namespace tutti::cuda {
namespace {

/// A warp to a sample.
template <class T>
__global__ void __launch_bounds__(row_threads)
    count_tokens(const T* RESTRICT mask, std::int64_t samples, int tokens, std::int64_t* RESTRICT existing) {
    using Group = RowGroup<32>;
    for (std::int64_t n = Group::first_row(); n < samples; n += Group::row_step()) {
        int first = Group::member();
        while (first < tokens && to_float(mask[n * tokens + first]) != 0) first += 32;
        first = Group::reduce(first, tokens, [](int a, int b) { return a < b ? a : b; });
        if (Group::member() == 0) existing[n] = first < tokens ? first : tokens;
    }
}

/// How many keys of a row count.
struct AllKeys {
    __device__ int operator()(std::int64_t, int width) const { return width; }
};
/// Row r is query r % width of sample r / width.
struct ExistingKeys {
    const std::int64_t* existing;
    __device__ int operator()(std::int64_t row, int width) const {
        const auto query = static_cast<unsigned>(row), tokens = static_cast<unsigned>(width);
        const auto count = static_cast<int>(existing[query / tokens]);
        return static_cast<int>(query % tokens) < count ? count : 0;
    }
};

// A thread reads and writes the same elements of a row in each pass.
template <class Group, class Keys>
__global__ void __launch_bounds__(row_threads, 1)
    softmax_rows(float* RESTRICT scores, std::int64_t rows, int width, Keys keys_of) {
    constexpr int threads = row_threads / Group::per_block;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        float* x = scores + row * width;
        const int keys = keys_of(row, width);
        const float lowest = -std::numeric_limits<float>::infinity();
        float maximum = lowest;
        for (int k = Group::member(); k < keys; k += threads) maximum = fmaxf(maximum, x[k]);
        maximum = Group::reduce(maximum, lowest, Maximum<float>{});
        double sum = 0;
        for (int k = Group::member(); k < keys; k += threads) {
            const float e = expf(x[k] - maximum);
            x[k] = e;
            sum += static_cast<double>(e);
        }
        const float inverse = static_cast<float>(1 / Group::sum(sum));
        for (int k = Group::member(); k < keys; k += threads) x[k] *= inverse;
        if constexpr (!std::is_same_v<Keys, AllKeys>)
            for (int k = keys + Group::member(); k < width; k += threads) x[k] = 0;
    }
}

template <class Group, class Keys>
__global__ void __launch_bounds__(row_threads, 1)
    differentiate_rows(const float* RESTRICT probabilities, float factor, float* RESTRICT gradient,
                       std::int64_t rows, int width, Keys keys_of) {
    constexpr int threads = row_threads / Group::per_block;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const float* p = probabilities + row * width;
        float* dp = gradient + row * width;
        const int keys = keys_of(row, width);
        double sum = 0;
        for (int k = Group::member(); k < keys; k += threads)
            sum += static_cast<double>(p[k]) * static_cast<double>(dp[k]);
        const float mean = static_cast<float>(Group::sum(sum));
        for (int k = Group::member(); k < keys; k += threads) dp[k] = factor * p[k] * (dp[k] - mean);
        if constexpr (!std::is_same_v<Keys, AllKeys>)
            for (int k = keys + Group::member(); k < width; k += threads) dp[k] = 0;
    }
}

/// start(Keys) of rows of `width`.
template <class Start>
void with_keys(const TensorView& existing, [[maybe_unused]] std::int64_t rows,
               [[maybe_unused]] std::int64_t width, const Start& start) {
    if (!existing.defined()) return start(AllKeys{});
    assert(existing.count() * width == rows && rows <= std::numeric_limits<unsigned>::max());
    start(ExistingKeys{existing.as<std::int64_t>()});
}

}  // namespace

void count_existing(const TensorView& mask, const TensorView& existing, Stream stream) {
    const std::int64_t samples = existing.count(), tokens = mask.shape[1];
    assert(mask.count() == samples * tokens && tokens <= std::numeric_limits<int>::max() / 2);
    with_storage(mask.dtype, [&]<class T>(Storage<T>) {
        launch("count_existing", count_tokens<T>, row_geometry(samples, RowGroup<32>::per_block), stream,
               elements<const T>(mask), samples, static_cast<int>(tokens), existing.as<std::int64_t>());
    });
}

void row_softmax_forward(const TensorView& scores, const TensorView& existing, Stream stream) {
    const std::int64_t rows = rows_of(scores), width = scores.shape[scores.shape.rank() - 1];
    with_keys(existing, rows, width, [&]<class Keys>(const Keys& keys) {
        with_row_group(width, [&]<class Group>(Group) {
            launch("row_softmax_forward", softmax_rows<Group, Keys>, row_geometry(rows, Group::per_block),
                   stream, scores.as<float>(), rows, static_cast<int>(width), keys);
        });
    });
}

void row_softmax_backward(const TensorView& probabilities, const TensorView& existing, float factor,
                          const TensorView& gradient, Stream stream) {
    assert(probabilities.count() == gradient.count());
    const std::int64_t rows = rows_of(gradient), width = gradient.shape[gradient.shape.rank() - 1];
    with_keys(existing, rows, width, [&]<class Keys>(const Keys& keys) {
        with_row_group(width, [&]<class Group>(Group) {
            launch("row_softmax_backward", differentiate_rows<Group, Keys>,
                   row_geometry(rows, Group::per_block), stream, probabilities.as<float>(), factor,
                   gradient.as<float>(), rows, static_cast<int>(width), keys);
        });
    });
}

}  // namespace tutti::cuda
