#include "narrow_linear.hpp"

#include <algorithm>

#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "tile_product.hpp"
#include "tile_transpose.hpp"
#include "tile_vector.hpp"

namespace tutti {
namespace {

/// Outputs as vectors hold them.
constexpr std::int64_t width = lanes<float>;
/// Inputs that are not parted: a cache line, and whole vectors.
constexpr std::int64_t unit = 16;

/// Into how many runs the inputs are cut: none too narrow for vectors and cache lines.
std::int64_t parts_of_inputs(const LinearShape& shape) {
    constexpr std::int64_t least_inputs = 64;
    return std::clamp<std::int64_t>(omp_get_max_threads(), 1,
                                    std::max<std::int64_t>(shape.in / least_inputs, 1));
}

/// The first input of a part.
std::int64_t input_of(const LinearShape& shape, std::int64_t parts, std::int64_t part) {
    return share_begin(shape.in / unit, parts, part) * unit;
}

/// Threads for so many multiplications: some µs of work each are worth their start.
int callers_of(const LinearShape& shape, std::int64_t rows, std::int64_t parts) {
    constexpr std::int64_t worth_a_thread = 1 << 16;
    return rows * shape.in * width >= worth_a_thread * parts ? static_cast<int>(parts) : 1;
}

/// Of more rows, as many as this at a time: with offers of progress between them, and with little scratch.
constexpr std::int64_t most_rows = 1024;

}  // namespace

bool takes_narrow_linear(const LinearShape& shape) {
    constexpr std::int64_t least_in = 64;
    return shape.out <= width && shape.in >= least_in && shape.in % unit == 0;
}

void narrow_linear_forward(const LinearShape& shape, std::int64_t batch, const float* x, const float* weight,
                           const float* bias, float* y, Workspace& workspace) {
    const std::int64_t parts = parts_of_inputs(shape);
    // Of each part the weights, turned, and the sums.
    const std::int64_t turned_size = (shape.in / parts + unit) * width,
                       sums_size = std::min(batch, most_rows) * width;
    float* const memory =
        workspace.reserve_elements<float>(static_cast<std::size_t>(parts * (turned_size + sums_size)));
    const auto sums_of = [&](std::int64_t part) { return memory + parts * turned_size + part * sums_size; };
    for (std::int64_t first = 0; first < batch; first += most_rows) {
        const std::int64_t rows = std::min(batch - first, most_rows);
        for_parts(parts, callers_of(shape, rows, parts), [&](int, std::int64_t part) {
            const std::int64_t begin = input_of(shape, parts, part);
            const std::int64_t count = input_of(shape, parts, part + 1) - begin;
            float* const turned = memory + part * turned_size;
            if (first == 0) transpose_tile(weight + begin, shape.in, shape.out, count, 1.0f, turned);
            multiply_tiles<float>(rows, width, count, {x + first * shape.in + begin, shape.in, 1}, turned,
                                  width, sums_of(part), width, false);
        });
        for_ranges(
            rows,
            [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t row = begin; row < end; ++row)
                    for (std::int64_t o = 0; o < shape.out; ++o) {
                        float sum = bias ? bias[o] : 0.0f;
                        for (std::int64_t part = 0; part < parts; ++part)
                            sum += sums_of(part)[row * width + o];
                        y[(first + row) * shape.out + o] = sum;
                    }
            },
            parts * shape.out);
    }
}

void narrow_linear_backward(const LinearShape& shape, std::int64_t batch, const float* x, const float* weight,
                            const float* dy, float* dx, float* dweight, float* dbias,
                            const ParametersFinal* parameters_final) {
    if (dbias) sum_rows(dy, batch, shape.out, dbias);
    const std::int64_t parts = parts_of_inputs(shape);
    const int callers = callers_of(shape, std::min(batch, most_rows), parts);
    // Of the rows from `first` on.
    const auto weights_of = [&](std::int64_t first) {
        return [&, first, rows = std::min(batch - first, most_rows)](int, std::int64_t part) {
            const std::int64_t begin = input_of(shape, parts, part);
            const std::int64_t count = input_of(shape, parts, part + 1) - begin;
            multiply_tiles<float>(shape.out, count, rows, {dy + first * shape.out, 1, shape.out},
                                  x + first * shape.in + begin, shape.in, dweight + begin, shape.in,
                                  first > 0);
        };
    };
    const auto inputs_of = [&](std::int64_t first) {
        return [&, first, rows = std::min(batch - first, most_rows)](int, std::int64_t part) {
            const std::int64_t begin = input_of(shape, parts, part);
            const std::int64_t count = input_of(shape, parts, part + 1) - begin;
            multiply_tiles<float>(rows, count, shape.out, {dy + first * shape.out, shape.out, 1},
                                  weight + begin, shape.in, dx + first * shape.in + begin, shape.in, false);
        };
    };
    std::int64_t last = 0;
    for (; batch - last > most_rows; last += most_rows) for_parts(parts, callers, weights_of(last));
    if (!dx) return for_parts(parts, callers, weights_of(last));
    for_parts_twice(
        parts, callers, weights_of(last),
        [&] {
            if (parameters_final) (*parameters_final)();
        },
        inputs_of(0));
    for (std::int64_t first = most_rows; first < batch; first += most_rows)
        for_parts(parts, callers, inputs_of(first));
}

}  // namespace tutti
