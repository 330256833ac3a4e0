#include "narrow_linear.hpp"

#include <algorithm>

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
int callers_of(const LinearShape& shape, std::int64_t batch, std::int64_t parts) {
    constexpr std::int64_t worth_a_thread = 1 << 16;
    return batch * shape.in * width >= worth_a_thread * parts ? static_cast<int>(parts) : 1;
}

}  // namespace

bool takes_narrow_linear(const LinearShape& shape) {
    constexpr std::int64_t least_in = 64;
    return shape.out <= width && shape.in >= least_in && shape.in % unit == 0;
}

void narrow_linear_forward(const LinearShape& shape, std::int64_t batch, const float* x, const float* weight,
                           const float* bias, float* y, Workspace& workspace) {
    const std::int64_t parts = parts_of_inputs(shape);
    // Of each part the weights, turned, and the sums.
    const std::int64_t turned_size = (shape.in / parts + unit) * width, sums_size = batch * width;
    float* const memory =
        workspace.reserve_elements<float>(static_cast<std::size_t>(parts * (turned_size + sums_size)));
    const auto sums_of = [&](std::int64_t part) { return memory + parts * turned_size + part * sums_size; };
    for_parts(parts, callers_of(shape, batch, parts), [&](int, std::int64_t part) {
        const std::int64_t begin = input_of(shape, parts, part);
        const std::int64_t count = input_of(shape, parts, part + 1) - begin;
        float* const turned = memory + part * turned_size;
        transpose_tile(weight + begin, shape.in, shape.out, count, 1.0f, turned);
        multiply_tiles<float>(batch, width, count, {x + begin, shape.in, 1}, turned, width, sums_of(part),
                              width, false);
    });
    for (std::int64_t row = 0; row < batch; ++row)
        for (std::int64_t o = 0; o < shape.out; ++o) {
            float sum = bias ? bias[o] : 0.0f;
            for (std::int64_t part = 0; part < parts; ++part) sum += sums_of(part)[row * width + o];
            y[row * shape.out + o] = sum;
        }
}

void narrow_linear_backward(const LinearShape& shape, std::int64_t batch, const float* x, const float* weight,
                            const float* dy, float* dx, float* dweight, float* dbias) {
    const std::int64_t parts = parts_of_inputs(shape);
    for_parts(parts, callers_of(shape, batch, parts), [&](int, std::int64_t part) {
        const std::int64_t begin = input_of(shape, parts, part);
        const std::int64_t count = input_of(shape, parts, part + 1) - begin;
        multiply_tiles<float>(shape.out, count, batch, {dy, 1, shape.out}, x + begin, shape.in,
                              dweight + begin, shape.in, false);
        if (dx)
            multiply_tiles<float>(batch, count, shape.out, {dy, shape.out, 1}, weight + begin, shape.in,
                                  dx + begin, shape.in, false);
    });
    if (!dbias) return;
    std::fill_n(dbias, shape.out, 0.0f);
    for (std::int64_t row = 0; row < batch; ++row)
        for (std::int64_t o = 0; o < shape.out; ++o) dbias[o] += dy[row * shape.out + o];
}

}  // namespace tutti
