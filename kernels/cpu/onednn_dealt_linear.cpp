#include "onednn_dealt_linear.hpp"

#include <algorithm>

#include "../common/activations.hpp"
#include "operand_rows.hpp"
#include "parallel.hpp"
#include "tile_linear.hpp"

namespace tutti {
namespace {

using dnnl::memory;

/// Features: a vector's, and a cache line's, which two threads must not both write.
constexpr std::int64_t unit = 16;
/// Multiplications of a thread that take longer than its start, some µs; and those that take 1 to 3 ms, after
/// which progress must be offered, and whose weights no cache holds.
constexpr std::int64_t worth_a_thread = 1 << 17, too_many = std::int64_t{64} << 20;

/// oneDNN's fast products want whole rows one behind the other: runs of columns are copied out and in.
memory::desc rows_of(std::int64_t rows, std::int64_t columns) {
    return {{rows, columns}, memory::data_type::f32, memory::format_tag::ab};
}
memory::desc transposed(std::int64_t rows, std::int64_t columns) {
    return {{rows, columns}, memory::data_type::f32, memory::format_tag::ba};
}
/// Rows, and columns, that are so far apart.
memory::desc rows_of(std::int64_t rows, std::int64_t columns, std::int64_t apart) {
    return {{rows, columns}, memory::data_type::f32, memory::dims{apart, 1}};
}
memory::desc transposed(std::int64_t rows, std::int64_t columns, std::int64_t apart) {
    return {{rows, columns}, memory::data_type::f32, memory::dims{1, apart}};
}

void copy_columns(const float* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                  float* to, std::int64_t to_row) {
    for (std::int64_t row = 0; row < rows; ++row)
        std::copy_n(from + row * from_row, columns, to + row * to_row);
}

/// to[rows, columns], rows `to_row` apart, = max(from[rows, columns], 0).
void put_relu(const float* from, std::int64_t rows, std::int64_t columns, float* to, std::int64_t to_row) {
    for (std::int64_t row = 0; row < rows; ++row, from += columns, to += to_row)
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) to[i] = relu(from[i]);
}

/// to[rows, columns] = the gradient dy before a ReLU whose result was y; their rows are `from_row` apart.
void take_relu_gradient(const float* y, const float* dy, std::int64_t from_row, std::int64_t rows,
                        std::int64_t columns, float* to, std::int64_t to_row) {
    for (std::int64_t row = 0; row < rows; ++row, y += from_row, dy += from_row, to += to_row)
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) {
            const float gradient = dy[i];  // read in any case: a read under a condition would be a branch
            to[i] = relu_gradient(y[i], gradient);
        }
}

/// out[columns] = Σ over rows of matrix[rows, columns], rows `apart`, row after row.
void sum_own_rows(const float* matrix, std::int64_t apart, std::int64_t rows, std::int64_t columns,
                  float* out) {
    std::fill_n(out, columns, 0.0f);
    for (std::int64_t row = 0; row < rows; ++row, matrix += apart)
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) out[i] += matrix[i];
}

std::size_t floats(std::int64_t count) {
    return static_cast<std::size_t>((count + unit - 1) / unit * unit) * sizeof(float);
}

}  // namespace

bool OnednnDealtLinear::takes(std::int64_t batch) const {
    const std::int64_t threads = omp_get_max_threads(), products = batch * shape_.in * shape_.out;
    return threads > 1 && std::min(shape_.in, shape_.out) >= unit * threads &&
           threads * batch <= shape_.out && products >= worth_a_thread * threads &&
           products <= too_many * threads;
}

OnednnDealtLinear::Run OnednnDealtLinear::run_of(std::int64_t features, int callers, std::int64_t part) {
    const std::int64_t units = (features + unit - 1) / unit, begin = share_begin(units, callers, part) * unit;
    return {begin, std::min(share_begin(units, callers, part + 1) * unit, features) - begin};
}

std::size_t OnednnDealtLinear::Products::scratch_bytes() const {
    return std::max(
        {forward.scratch_bytes(), backward_weight.scratch_bytes(), backward_data.scratch_bytes()});
}

OnednnDealtLinear::Products OnednnDealtLinear::plan(std::int64_t batch, std::int64_t count,
                                                    int callers) const {
    // What is planned for one thread is another primitive than for several.
    const OneThread alone;
    const auto attributes = context_->attributes();
    const auto product = [&](const memory::desc& a, const memory::desc& b, const memory::desc& c) {
        return OnednnPrimitive(*context_,
                               dnnl::matmul::primitive_desc({a, b, c}, attributes, context_->engine),
                               {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}, callers);
    };
    const memory::desc x = rows_of(batch, shape_.in), weight_t = transposed(shape_.in, count),
                       y = rows_of(batch, count);
    Products products;
    if (shape_.bias) {
        const memory::desc bias = rows_of(1, count);
        products.forward = {
            *context_,
            dnnl::matmul::primitive_desc({x, weight_t, bias, y}, attributes, context_->engine),
            {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weight_t}, {DNNL_ARG_DST, y}, {DNNL_ARG_BIAS, bias}},
            callers};
    } else {
        products.forward = product(x, weight_t, y);
    }
    const std::int64_t gradient_row = activation_row(count);
    products.backward_weight =
        product(transposed(count, batch, gradient_row), rows_of(batch, shape_.in, activation_row(shape_.in)),
                rows_of(count, shape_.in));
    products.backward_data = product(rows_of(batch, count, gradient_row),
                                     rows_of(count, shape_.in, weight_row(shape_.in, batch)), x);
    return products;
}

std::size_t OnednnDealtLinear::gradient_bytes(std::int64_t batch, std::int64_t count) {
    return floats(batch * activation_row(count));
}

std::size_t OnednnDealtLinear::copy_bytes(std::int64_t batch, std::int64_t count) const {
    const std::int64_t x_row = activation_row(shape_.in), row = weight_row(shape_.in, batch);
    return floats(std::max(x_row == shape_.in ? 0 : batch * x_row, row == shape_.in ? 0 : count * row));
}

std::size_t OnednnDealtLinear::ready(std::int64_t batch, int callers) {
    std::size_t bytes = 0;
    for (std::int64_t part = 0; part < callers; ++part) {
        const Run run = run_of(shape_.out, callers, part);
        Products& products = products_[{batch, run.count, callers}];
        if (!products.forward) products = plan(batch, run.count, callers);
        const std::size_t sums = tiles_ ? floats(tile_linear_rows * run.count) : 0;
        bytes = std::max(
            {bytes,
             gradient_bytes(batch, run.count) + copy_bytes(batch, run.count) + products.scratch_bytes(),
             sums});
    }
    context_->ready_callers(callers, bytes);
    return bytes;
}

void OnednnDealtLinear::forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                const TensorView& y, bool with_relu) {
    const std::int64_t batch = x.shape[0];
    const int callers = omp_get_max_threads();
    const std::size_t bytes = ready(batch, callers);
    if (tiles_) return forward_by_tiles(x, weight, bias, y, with_relu, callers, bytes);
    for_parts(callers, callers, [&](int caller, std::int64_t part) {
        const Run run = run_of(shape_.out, callers, part);
        OnednnContext& own = context_->of(caller);
        std::byte* const memory = own.workspace.reserve(bytes);
        float* const result = reinterpret_cast<float*>(memory);
        OnednnPrimitive& product = products_.at({batch, run.count, callers}).forward;
        const float* const rows = weight.as<float>() + run.begin * shape_.in;
        std::byte* const scratch = memory + floats(batch * run.count);
        if (shape_.bias)
            product.execute(own, {x.data, rows, result, bias.as<float>() + run.begin}, scratch);
        else
            product.execute(own, {x.data, rows, result}, scratch);
        float* const to = y.as<float>() + run.begin;
        if (with_relu)
            put_relu(result, batch, run.count, to, shape_.out);
        else
            copy_columns(result, run.count, batch, run.count, to, shape_.out);
    });
}

void OnednnDealtLinear::forward_by_tiles(const TensorView& x, const TensorView& weight,
                                         const TensorView& bias, const TensorView& y, bool with_relu,
                                         int callers, std::size_t bytes) {
    // The bits of a call that is not dealt.
    const std::int64_t batch = x.shape[0];
    float* const turned = context_->common.reserve_elements<float>(
        static_cast<std::size_t>((batch + unit - 1) / unit * unit * shape_.in));
    const auto blocks = [batch](const auto& body) {
        for (std::int64_t row = 0; row < batch; row += tile_linear_rows)
            body(row, std::min(tile_linear_rows, batch - row));
    };
    for_parts_twice(
        callers, callers,
        [&](int, std::int64_t part) {
            const Run run = run_of(shape_.in, callers, part);
            blocks([&](std::int64_t row, std::int64_t rows) {
                tile_linear_turn(shape_.in, rows, x.as<float>() + row * shape_.in, run.begin,
                                 run.begin + run.count, turned + row * shape_.in);
            });
        },
        [] {},
        [&](int caller, std::int64_t part) {
            const Run run = run_of(shape_.out, callers, part);
            float* const scratch = reinterpret_cast<float*>(context_->of(caller).workspace.reserve(bytes));
            blocks([&](std::int64_t row, std::int64_t rows) {
                tile_linear_multiply(shape_.in, run.count, rows, turned + row * shape_.in,
                                     weight.as<float>() + run.begin * shape_.in,
                                     shape_.bias ? bias.as<float>() + run.begin : nullptr, with_relu,
                                     y.as<float>() + row * shape_.out + run.begin, shape_.out, scratch);
            });
        });
}

void OnednnDealtLinear::backward(const TensorView& x, const TensorView& weight, const TensorView& relu_of,
                                 const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                                 const TensorView& dbias, const ParametersFinal* parameters_final) {
    const std::int64_t batch = x.shape[0], inputs = batch * shape_.in;
    const int callers = omp_get_max_threads();
    const std::size_t bytes = ready(batch, callers);
    float* const parts = dx.defined() ? reinterpret_cast<float*>(context_->common.reserve(
                                            static_cast<std::size_t>(callers) * floats(inputs)))
                                      : nullptr;
    const auto part_of_dx = [&](std::int64_t part) {
        return parts + static_cast<std::size_t>(part) * floats(inputs) / sizeof(float);
    };
    const auto multiply = [&](int caller, std::int64_t part) {
        const Run run = run_of(shape_.out, callers, part);
        OnednnContext& own = context_->of(caller);
        std::byte* const memory = own.workspace.reserve(bytes);
        float* const gradient = reinterpret_cast<float*>(memory);
        auto* const copy = reinterpret_cast<float*>(memory + gradient_bytes(batch, run.count));
        std::byte* const scratch = reinterpret_cast<std::byte*>(copy) + copy_bytes(batch, run.count);
        Products& products = products_.at({batch, run.count, callers});
        const std::int64_t gradient_row = activation_row(run.count);
        if (relu_of.defined())
            take_relu_gradient(relu_of.as<float>() + run.begin, dy.as<float>() + run.begin, shape_.out, batch,
                               run.count, gradient, gradient_row);
        else
            copy_columns(dy.as<float>() + run.begin, shape_.out, batch, run.count, gradient, gradient_row);
        if (shape_.bias)
            sum_own_rows(gradient, gradient_row, batch, run.count, dbias.as<float>() + run.begin);
        const std::int64_t first = run.begin * shape_.in;
        const auto apart = [&](const float* from, std::int64_t rows, std::int64_t row) {
            if (row == shape_.in) return from;
            copy_columns(from, shape_.in, rows, shape_.in, copy, row);
            return static_cast<const float*>(copy);
        };
        products.backward_weight.execute(
            own,
            {gradient, apart(x.as<float>(), batch, activation_row(shape_.in)), dweight.as<float>() + first},
            scratch);
        if (parts)
            products.backward_data.execute(
                own,
                {gradient, apart(weight.as<float>() + first, run.count, weight_row(shape_.in, batch)),
                 part_of_dx(part)},
                scratch);
    };
    if (!parts) return for_parts(callers, callers, multiply);
    for_parts_twice(
        callers, callers, multiply,
        [&] {
            if (parameters_final) (*parameters_final)();
        },
        [&](int, std::int64_t part) {
            // Whole rows: what computes before this layer on the rows' samples goes on with its own.
            const std::int64_t begin = share_begin(batch, callers, part) * shape_.in;
            const std::int64_t count = share_begin(batch, callers, part + 1) * shape_.in - begin;
            float* const __restrict out = dx.as<float>() + begin;
            const float* const first = part_of_dx(0) + begin;
            const float* const second = part_of_dx(1) + begin;
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) out[i] = first[i] + second[i];
            for (int other = 2; other < callers; ++other) {
                const float* const more = part_of_dx(other) + begin;
#pragma omp simd
                for (std::int64_t i = 0; i < count; ++i) out[i] += more[i];
            }
        });
}

}  // namespace tutti
