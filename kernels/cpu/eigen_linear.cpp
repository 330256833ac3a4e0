#include <algorithm>

#include "eigen_ops.hpp"
#include "matrix_product.hpp"
#include "parallel.hpp"
#include "shape_checks.hpp"
#include "thread_team.hpp"

namespace tutti {

template <class T>
void sum_rows(const T* matrix, std::int64_t rows, std::int64_t columns, T* out) {
    // Whole rows, as they lie in memory, and several at a time, so that the sums are not written for each;
    // they are added in their order all the same.
    constexpr std::int64_t together = 8;
    const std::int64_t shares = rows * columns > elements_worth_threads ? omp_get_max_threads() : 1;
    for_shares(columns, shares, [=](std::int64_t, std::int64_t begin, std::int64_t end) {
        std::fill(out + begin, out + end, T(0));
        run_parts(
            [=](std::int64_t first, std::int64_t last) {
                std::int64_t row = first;
                for (; row + together <= last; row += together) {
                    const T* from = matrix + row * columns;
#pragma omp simd
                    for (std::int64_t i = begin; i < end; ++i) {
                        T sum = out[i];
#pragma GCC unroll 8
                        for (std::int64_t r = 0; r < together; ++r) sum += from[r * columns + i];
                        out[i] = sum;
                    }
                }
                for (; row < last; ++row)
#pragma omp simd
                    for (std::int64_t i = begin; i < end; ++i) out[i] += matrix[row * columns + i];
            },
            0, rows, end - begin);
    });
}

template <class T>
void add_to_rows(const T* row, T* matrix, std::int64_t rows, std::int64_t columns) {
    for_ranges(
        rows,
        [=](std::int64_t begin, std::int64_t end) {
            for (T* to = matrix + begin * columns; to < matrix + end * columns; to += columns)
#pragma omp simd
                for (std::int64_t i = 0; i < columns; ++i) to[i] += row[i];
        },
        columns);
}

template void sum_rows(const float*, std::int64_t, std::int64_t, float*);
template void sum_rows(const double*, std::int64_t, std::int64_t, double*);
template void add_to_rows(const float*, float*, std::int64_t, std::int64_t);
template void add_to_rows(const double*, double*, std::int64_t, std::int64_t);

namespace {

template <class T>
class EigenLinear final : public LinearOp {
  public:
    explicit EigenLinear(const LinearShape& shape) : shape_(shape) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        const std::int64_t batch = x.shape[0];
        assert(x.count() == batch * shape_.in && y.count() == batch * shape_.out);
        assert(weight.count() == shape_.out * shape_.in && bias.defined() == shape_.bias);
        if (batch == 0) return;
        ThreadTeam::note_library_region();
        multiply_transposed(ConstMatrix(x.as<T>(), batch, shape_.in),
                            ConstMatrix(weight.as<T>(), shape_.out, shape_.in),
                            Matrix(y.as<T>(), batch, shape_.out));
        if (shape_.bias) add_to_rows(bias.as<T>(), y.as<T>(), batch, shape_.out);
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        const std::int64_t batch = x.shape[0];
        assert(dy.count() == batch * shape_.out && dweight.count() == weight.count());
        assert(dbias.defined() == shape_.bias);
        std::fill_n(dweight.as<T>(), dweight.count(), T(0));
        if (shape_.bias) sum_rows(dy.as<T>(), batch, shape_.out, dbias.as<T>());
        if (batch == 0) return;
        ThreadTeam::note_library_region();
        add_transposed_product(ConstMatrix(dy.as<T>(), batch, shape_.out),
                               ConstMatrix(x.as<T>(), batch, shape_.in),
                               Matrix(dweight.as<T>(), shape_.out, shape_.in));
        offer_progress();
        if (!dx.defined()) return;
        if (parameters_final) (*parameters_final)();
        multiply(ConstMatrix(dy.as<T>(), batch, shape_.out),
                 ConstMatrix(weight.as<T>(), shape_.out, shape_.in), Matrix(dx.as<T>(), batch, shape_.in));
        offer_progress();
    }

  private:
    using Matrix = MatrixView<T>;
    using ConstMatrix = MatrixView<const T>;

    LinearShape shape_;
};

}  // namespace

template <class T>
std::unique_ptr<LinearOp> make_eigen_linear(const LinearShape& shape) {
    check(shape);
    return std::make_unique<EigenLinear<T>>(shape);
}
template std::unique_ptr<LinearOp> make_eigen_linear<float>(const LinearShape&);
template std::unique_ptr<LinearOp> make_eigen_linear<double>(const LinearShape&);

}  // namespace tutti
