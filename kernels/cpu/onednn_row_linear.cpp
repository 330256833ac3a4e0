#include "onednn_row_linear.hpp"

#include <algorithm>

#include "eigen_ops.hpp"
#include "operand_rows.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

using dnnl::memory;

/// Blocks are whole groups of rows that the library's kernels take together (6, and 4 for gradients).
constexpr std::int64_t unit = 24;
/// Rows of a block: few, so that nobody waits long for another's last one, but the library brings the weights
/// into an order of its own for each, and with AVX-512 its products of fewer rows are slower.
std::int64_t block_rows() {
    return spreads_rows() ? 400 : 1600;
}
std::int64_t least_block_rows() {
    return spreads_rows() ? 128 : 800;
}
constexpr std::int64_t least_rows = 512;
/// Floats of the weights' gradients of all blocks: they should stay in the caches.
constexpr std::int64_t most_sums = 1 << 20;

memory::desc rows_of(std::int64_t rows, std::int64_t columns) {
    return {{rows, columns}, memory::data_type::f32, memory::format_tag::ab};
}

}  // namespace

std::int64_t OnednnRowLinear::Blocks::begin(std::int64_t block) const {
    return std::min(share_begin((batch + unit - 1) / unit, count, block) * unit, batch);
}

OnednnRowLinear::Blocks OnednnRowLinear::blocks_of(std::int64_t batch, int callers) {
    const std::int64_t of_caller = batch / callers;
    return {batch, callers * std::max<std::int64_t>((of_caller + block_rows() / 2) / block_rows(), 1)};
}

bool OnednnRowLinear::takes(std::int64_t batch) const {
    const int callers = omp_get_max_threads();
    if (!spreads_rows() && !library_has_avx512()) return false;  // not measured
    if (callers < 2 || batch < std::max(least_rows, callers * least_block_rows())) return false;
    return blocks_of(batch, callers).count * sum_count() <= most_sums;
}

bool OnednnRowLinear::takes_forward(std::int64_t batch) const {
    return spreads_rows() && takes(batch);
}

OnednnProduct OnednnRowLinear::plan_forward(std::int64_t rows, int callers) const {
    const memory::desc x = rows_of(rows, shape_.in), y = rows_of(rows, shape_.out),
                       weight_t({shape_.in, shape_.out}, memory::data_type::f32, memory::format_tag::ba),
                       bias = rows_of(1, shape_.out);
    const auto attributes = context_->attributes();
    const auto with = [&](const dnnl::matmul::desc& what, const std::optional<OnednnProduct::Bias>& of) {
        return OnednnProduct(*context_, dnnl::matmul::primitive_desc(what, attributes, context_->engine),
                             {DNNL_ARG_SRC, x, x}, {DNNL_ARG_WEIGHTS, weight_t, weight_t},
                             {DNNL_ARG_DST, y, y}, of, callers);
    };
    if (!shape_.bias) return with({x, weight_t, y}, {});
    return with({x, weight_t, bias, y}, OnednnProduct::Bias{DNNL_ARG_BIAS, bias});
}

OnednnProduct OnednnRowLinear::plan_backward_weight(std::int64_t rows, int callers) const {
    const memory::desc x = rows_of(rows, shape_.in), dy = rows_of(rows, shape_.out),
                       weight = rows_of(shape_.out, shape_.in);
    const auto attributes = context_->attributes();
    const dnnl::inner_product_forward::primitive_desc hint({dnnl::prop_kind::forward_training, x, weight, dy},
                                                           attributes, context_->engine);
    const dnnl::inner_product_backward_weights::primitive_desc description({x, weight, dy}, attributes,
                                                                           context_->engine, hint);
    return {*context_,
            description,
            {DNNL_ARG_SRC, x, x},
            {DNNL_ARG_DIFF_DST, dy, dy},
            {DNNL_ARG_DIFF_WEIGHTS, weight, weight},
            {},
            callers};
}

OnednnProduct OnednnRowLinear::plan_backward_data(std::int64_t rows, int callers) const {
    const memory::desc dy = rows_of(rows, shape_.out), dx = rows_of(rows, shape_.in),
                       weight = rows_of(shape_.out, shape_.in),
                       apart({shape_.out, shape_.in}, memory::data_type::f32,
                             memory::dims{weight_row(shape_.in, rows), 1});
    return {*context_,
            dnnl::matmul::primitive_desc({dy, apart, dx}, context_->attributes(), context_->engine),
            {DNNL_ARG_SRC, dy, dy},
            {DNNL_ARG_WEIGHTS, weight, apart, true},
            {DNNL_ARG_DST, dx, dx},
            {},
            callers};
}

void OnednnRowLinear::ready(const Blocks& blocks, int callers) {
    std::size_t bytes = 0;
    for (std::int64_t block = 0; block < blocks.count; ++block) {
        const std::int64_t rows = blocks.rows(block);
        Products& of = products_[{rows, callers}];
        if (!of.backward_weight) {
            // What is described for one thread is another primitive than for several.
            const OneThread alone;
            of.backward_weight = plan_backward_weight(rows, callers);
            of.backward_data = plan_backward_data(rows, callers);
            if (spreads_rows()) of.forward = plan_forward(rows, callers);
        }
        bytes = std::max({bytes, of.backward_weight.workspace_bytes(), of.backward_data.workspace_bytes(),
                          of.forward ? of.forward.workspace_bytes() : 0});
    }
    context_->ready_callers(callers, bytes);
}

void OnednnRowLinear::forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                              const TensorView& y) {
    const int callers = omp_get_max_threads();
    const Blocks blocks = blocks_of(x.shape[0], callers);
    ready(blocks, callers);
    for_parts(blocks.count, callers, [&](int caller, std::int64_t block) {
        const std::int64_t begin = blocks.begin(block);
        products_.at({blocks.rows(block), callers})
            .forward.execute(context_->of(caller), x.as<float>() + begin * shape_.in,
                             OnednnProduct::Source(weight.data), y.as<float>() + begin * shape_.out,
                             bias.data);
    });
}

void OnednnRowLinear::backward(const TensorView& x, const TensorView& weight, const TensorView& dy,
                               const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                               const ParametersFinal* parameters_final) {
    const int callers = omp_get_max_threads();
    const Blocks blocks = blocks_of(x.shape[0], callers);
    ready(blocks, callers);
    float* const sums =
        sums_.reserve_elements<float>(static_cast<std::size_t>((blocks.count - 1) * sum_count()));
    const auto sum_of = [&](std::int64_t block) {
        return block == 0 ? dweight.as<float>() : sums + (block - 1) * sum_count();
    };
    const auto bias_sum_of = [&](std::int64_t block) {
        return block == 0 ? dbias.as<float>() : sum_of(block) + shape_.out * shape_.in;
    };
    const auto weight_taken =
        products_.at({blocks.rows(0), callers}).backward_data.bring_common(*context_, weight.data);
    const auto weights_of = [&](int caller, std::int64_t block) {
        const std::int64_t begin = blocks.begin(block), rows = blocks.rows(block);
        const float* const from = dy.as<float>() + begin * shape_.out;
        products_.at({rows, callers})
            .backward_weight.execute(context_->of(caller), x.as<float>() + begin * shape_.in,
                                     OnednnProduct::Source(from), sum_of(block));
        if (shape_.bias) sum_rows(from, rows, shape_.out, bias_sum_of(block));
    };
    const auto add_to = [&](float* to, std::int64_t begin, std::int64_t end, std::int64_t offset) {
        for (std::int64_t block = 1; block < blocks.count; ++block) {
            const float* const from = sum_of(block) + offset;
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
        }
    };
    for_parts_twice(
        blocks.count, callers, weights_of, [] {},
        [&](int, std::int64_t part) {
            constexpr std::int64_t line = 16;
            const std::int64_t count = dweight.count(), lines = (count + line - 1) / line;
            add_to(dweight.as<float>(), share_begin(lines, blocks.count, part) * line,
                   std::min(share_begin(lines, blocks.count, part + 1) * line, count), 0);
        });
    if (shape_.bias) add_to(dbias.as<float>(), 0, shape_.out, shape_.out * shape_.in);
    if (!dx.defined()) return;
    if (parameters_final) (*parameters_final)();
    for_parts(blocks.count, callers, [&](int caller, std::int64_t block) {
        const std::int64_t begin = blocks.begin(block), rows = blocks.rows(block);
        products_.at({rows, callers})
            .backward_data.execute(context_->of(caller), dy.as<float>() + begin * shape_.out, weight_taken,
                                   dx.as<float>() + begin * shape_.in);
    });
}

}  // namespace tutti
