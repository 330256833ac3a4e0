#include "onednn_dealt_linear.hpp"

#include <algorithm>

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

void copy_columns(const float* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                  float* to, std::int64_t to_row) {
    for (std::int64_t row = 0; row < rows; ++row)
        std::copy_n(from + row * from_row, columns, to + row * to_row);
}

/// out[columns] = Σ over rows of matrix[rows, columns], row after row.
void sum_own_rows(const float* matrix, std::int64_t rows, std::int64_t columns, float* out) {
    std::fill_n(out, columns, 0.0f);
    for (std::int64_t row = 0; row < rows; ++row, matrix += columns)
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) out[i] += matrix[i];
}

std::size_t floats(std::int64_t count) {
    return static_cast<std::size_t>((count + unit - 1) / unit * unit) * sizeof(float);
}

}  // namespace

bool OnednnDealtLinear::takes(std::int64_t batch) const {
    const std::int64_t threads = omp_get_max_threads(), products = batch * shape_.in * shape_.out;
    return threads > 1 && std::min(shape_.in, shape_.out) >= unit * threads && threads * batch < shape_.out &&
           products >= worth_a_thread * threads && products <= too_many * threads;
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
    products.backward_weight = product(transposed(count, batch), x, rows_of(count, shape_.in));
    products.backward_data = product(y, rows_of(count, shape_.in), x);
    return products;
}

template <class Compute>
void OnednnDealtLinear::deal(std::int64_t batch, const Compute& compute) {
    const int callers = omp_get_max_threads();
    std::size_t bytes = 0;
    for (std::int64_t part = 0; part < callers; ++part) {
        const Run run = run_of(shape_.out, callers, part);
        Products& products = products_[{batch, run.count, callers}];
        if (!products.forward) products = plan(batch, run.count, callers);
        const std::size_t tiles =
            takes_tile_linear(shape_) ? tile_linear_scratch(shape_.in, run.count) * sizeof(float) : 0;
        bytes = std::max(bytes, floats(batch * run.count) + std::max(products.scratch_bytes(), tiles));
    }
    context_->ready_callers(callers, bytes);
    for_parts(callers, callers, [&](int caller, std::int64_t part) {
        const Run run = run_of(shape_.out, callers, part);
        OnednnContext& own = context_->of(caller);
        Products& products = products_.at({batch, run.count, callers});
        const std::size_t copy_bytes = floats(batch * run.count);
        std::byte* const memory = own.workspace.reserve(bytes);
        compute(own, part, run, products, reinterpret_cast<float*>(memory), memory + copy_bytes);
    });
}

void OnednnDealtLinear::forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                const TensorView& y) {
    const std::int64_t batch = x.shape[0];
    deal(batch, [&](const OnednnContext& own, std::int64_t, const Run& run, Products& products, float* copy,
                    std::byte* scratch) {
        const float* const rows = weight.as<float>() + run.begin * shape_.in;
        if (takes_tile_linear(shape_)) {
            // The bits of a call that is not dealt.
            for (std::int64_t row = 0; row < batch; row += tile_linear_rows)
                tile_linear_forward_block(shape_.in, run.count, std::min(tile_linear_rows, batch - row),
                                          x.as<float>() + row * shape_.in, rows,
                                          shape_.bias ? bias.as<float>() + run.begin : nullptr,
                                          y.as<float>() + row * shape_.out + run.begin, shape_.out,
                                          reinterpret_cast<float*>(scratch));
            return;
        }
        if (shape_.bias)
            products.forward.execute(own, {x.data, rows, copy, bias.as<float>() + run.begin}, scratch);
        else
            products.forward.execute(own, {x.data, rows, copy}, scratch);
        copy_columns(copy, run.count, batch, run.count, y.as<float>() + run.begin, shape_.out);
    });
}

void OnednnDealtLinear::backward(const TensorView& x, const TensorView& weight, const TensorView& dy,
                                 const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                                 const ParametersFinal* parameters_final) {
    const std::int64_t batch = x.shape[0], inputs = batch * shape_.in;
    const int callers = omp_get_max_threads();
    float* const parts = dx.defined() ? reinterpret_cast<float*>(context_->common.reserve(
                                            static_cast<std::size_t>(callers) * floats(inputs)))
                                      : nullptr;
    const auto part_of_dx = [&](std::int64_t part) {
        return parts + static_cast<std::size_t>(part) * floats(inputs) / sizeof(float);
    };
    deal(batch, [&](const OnednnContext& own, std::int64_t part, const Run& run, Products& products,
                    float* copy, std::byte* scratch) {
        copy_columns(dy.as<float>() + run.begin, shape_.out, batch, run.count, copy, run.count);
        if (shape_.bias) sum_own_rows(copy, batch, run.count, dbias.as<float>() + run.begin);
        const std::int64_t first = run.begin * shape_.in;
        products.backward_weight.execute(own, {copy, x.data, dweight.as<float>() + first}, scratch);
        if (parts)
            products.backward_data.execute(own, {copy, weight.as<float>() + first, part_of_dx(part)},
                                           scratch);
    });
    if (!parts) return;
    if (parameters_final) (*parameters_final)();
    for_parts(callers, callers, [&](int, std::int64_t part) {
        const Run run = run_of(shape_.in, callers, part);
        for (std::int64_t row = 0; row < batch; ++row) {
            const std::int64_t begin = row * shape_.in + run.begin;
            float* const __restrict out = dx.as<float>() + begin;
            const float* const first = part_of_dx(0) + begin;
            const float* const second = part_of_dx(1) + begin;
#pragma omp simd
            for (std::int64_t i = 0; i < run.count; ++i) out[i] = first[i] + second[i];
            for (int other = 2; other < callers; ++other) {
                const float* const more = part_of_dx(other) + begin;
#pragma omp simd
                for (std::int64_t i = 0; i < run.count; ++i) out[i] += more[i];
            }
        }
    });
}

}  // namespace tutti
